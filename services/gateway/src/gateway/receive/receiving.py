"""Receives: lease messages at the brokers of a topic in turn; while there are none, wait at all brokers without leasing.

Leased messages that cannot be written to the client are given back at once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from gantry_wire.codes import ResponseCode
from gantry_wire.errors import MalformedRecord
from gantry_wire.private_requests.leading import NO_LEASE, NOT_LEADER
from gantry_wire.private_requests.leases import FILTER_CONFLICT, ItemKind, LeaseItem
from gateway.http.problems import LeaderAway, Problem, broker_away, leader_away, refused, topic_missing
from gateway.ports.leases import Leased, LeaseStore, LeaseStores, ReceiveAsk
from gateway.ports.stores import PeerAway, StoreRefused, outcome_of
from gateway.receive.receipts import Receipts
from gateway.receive.received_view import Shown
from gateway.routing.route_cache import PERM_READ, Route, RouteCache

_LEADERLESS = frozenset({NOT_LEADER, NO_LEASE})
FILTERS_MAX = 10_000
"""Groups whose filter is known to be at every broker."""
VAIN_PAUSE_SECONDS = 0.005
"""Pause between receives of one call after a wait reported messages and the receive found none."""
LEADER_PAUSE_SECONDS = 0.1
"""Pause before asking again while no replica leads. A hint ends it at once."""
AWAY_PAUSE_SECONDS = 0.5
"""Pause before waiting again at a broker that does not respond."""


Show = Callable[[ReceiveAsk, str, Leased, Receipts], Shown]
"""Formats the messages that a broker leased for an ask, in a protocol's form. Raises MalformedRecord."""


class Taken(NamedTuple):
    """Messages of one broker, formatted, and the store that takes them back."""

    broker: str
    store: LeaseStore
    shown: Shown


Brokers = list[tuple[str, LeaseStore]]
"""The brokers of a topic, in the order of requests."""


class Batch:
    """The messages of one receive."""

    def __init__(self, topic: str, group: str) -> None:
        self._topic, self._group = topic, group
        self._taken: list[Taken] = []
        self._returning: set[asyncio.Task[None]] = set()

    @property
    def count(self) -> int:
        """How many messages there are."""
        return sum([len(one.shown.parts) for one in self._taken])

    def add(self, taken: Taken) -> None:
        """Add messages of a broker."""
        self._taken.append(taken)

    @property
    def parts(self) -> list[bytes]:
        """The formatted messages."""
        return [part for one in self._taken for part in one.shown.parts]

    @property
    def taken(self) -> Sequence[Taken]:
        """The messages by broker."""
        return self._taken

    def give_back(self) -> None:
        """Give the messages back: they reach no client."""
        for one in self._taken:
            items = [LeaseItem(ItemKind.RELEASE, *place) for place in one.shown.all_places()]
            task = asyncio.ensure_future(one.store.release(self._topic, self._group, items))
            self._returning.add(task)
            task.add_done_callback(self._returning.discard)


class LeasePass:
    """Leases at one broker after the other, without waiting for messages, until there are enough."""

    __slots__ = (
        "_ask",
        "_away",
        "_batch",
        "_brokers",
        "_leaderless",
        "_next",
        "_on_batch",
        "_receipts",
        "_routes",
        "_show",
        "_without",
    )

    def __init__(
        self,
        routes: RouteCache,
        brokers: Brokers,
        ask: ReceiveAsk,
        show: Show,
        on_batch: Callable[[Batch | Exception], None],
    ) -> None:
        """`on_batch` receives the messages, the problem if there are none and a broker refused or none responded, or another error.

        It does not raise.
        """
        self._routes, self._brokers, self._ask, self._on_batch = routes, brokers, ask, on_batch
        self._show = show
        self._batch = Batch(ask.topic, ask.group)
        self._receipts = Receipts(ask.topic, ask.group)
        self._away: list[str] = []
        self._leaderless: Problem | None = None
        """The refusal of a replica that does not lead, or may not grant leases yet."""
        self._without = 0
        """How many brokers do not have the topic: it was deleted there, and routes keep such brokers for a while."""
        self._next = 0

    def start(self) -> None:
        """Ask the first broker."""
        self._brokers[0][1].receive(self._ask, self._on_leased)

    def _on_leased(self, outcome: Leased | Exception) -> None:
        """Pass the batch on if it is complete or no broker is left; else ask the next broker."""
        result: Batch | Exception | None
        try:
            result = self._take(outcome) or self._ask_next()
        except Exception as error:  # noqa: BLE001 - damaged records or a fault: the request waits, and others may have the messages
            self._batch.give_back()
            result = error
        if result is not None:
            self._on_batch(result)

    def _take(self, outcome: Leased | Exception) -> Problem | None:
        """Add what a broker gave; return the problem that ends the pass."""
        name, store = self._brokers[self._next]
        self._next += 1
        if isinstance(outcome, Leased):
            if outcome.runs:
                self._batch.add(self._taken(name, store, outcome))
        elif isinstance(outcome, PeerAway):
            self._away.append(name)
            self._routes.forget(self._ask.topic)
        elif not isinstance(outcome, StoreRefused):
            raise outcome
        elif _lacks_topic(outcome):
            self._without += 1
        elif outcome.gantry_code in _LEADERLESS:
            self._away.append(name)
            self._leaderless = leader_away(refused(outcome))
            self._routes.forget(self._ask.topic)
        elif not self._batch.count:
            return _problem(outcome)
        return None

    def _taken(self, broker: str, store: LeaseStore, leased: Leased) -> Taken:
        """Return what a broker leased."""
        try:
            return Taken(broker, store, self._show(self._ask, broker, leased, self._receipts))
        except MalformedRecord as error:
            detail = f"broker {broker} answered damaged records: {error}"
            raise Problem(503, "SYSTEM_ERROR", detail, retryable=True) from error

    def _ask_next(self) -> Batch | Problem | None:
        """Ask the next broker; return the end of the pass if none is to be asked."""
        ask, count = self._ask, self._batch.count
        if count < ask.count_max and self._next < len(self._brokers):
            if count:
                ask = ask._replace(count_max=ask.count_max - count)
            self._brokers[self._next][1].receive(ask, self._on_leased)
            return None
        if not count and len(self._away) + self._without == len(self._brokers):
            return self._nobody()
        return self._batch

    def _nobody(self) -> Problem:
        """Return the problem of a pass in which no broker answered."""
        topic = self._ask.topic
        if not self._away:
            return topic_missing(topic)
        if self._leaderless is not None:
            return self._leaderless
        problem = broker_away(", ".join(sorted(self._away)))
        return leader_away(problem) if self._routes.is_replicated(topic, self._away) else problem


class Receiver:
    """Receives on behalf of the clients of one protocol."""

    def __init__(self, routes: RouteCache, stores: LeaseStores, show: Show, now: Callable[[], float]) -> None:
        """`show` formats messages as the protocol needs them."""
        self._routes, self._stores, self._show, self._now = routes, stores, show, now
        self._turn = 0
        self._filters: dict[tuple[str, str, str], tuple[str, str]] = {}
        self._draining = asyncio.Event()
        self.waiting = 0
        """Receives that wait for a message."""

    def drain(self) -> None:
        """Answer every waiting receive now."""
        self._draining.set()

    def start(self, ask: ReceiveAsk, on_batch: Callable[[Batch | Exception], None]) -> bool:
        """Lease available messages for an `ask` without a filter; False, with nothing done, if the route is not cached."""
        route = self._routes.fresh(ask.topic)
        brokers = [] if route is None else self._holders(route)
        if brokers:
            LeasePass(self._routes, self._in_turn(brokers), ask, self._show, on_batch).start()
        return bool(brokers)

    async def receive(
        self, ask: ReceiveAsk, wait_seconds: float, gone: Callable[[], Awaitable[None]]
    ) -> Batch:
        """Lease up to `ask.count_max` messages; wait for the first while there is none. `gone` returns when the client disconnects.

        Raises the problem if topic or group do not allow it, or no broker responds.
        """
        until = self._now() + wait_seconds
        try:
            batch = await self._lease(ask)
        except LeaderAway:
            if not wait_seconds or self._draining.is_set():
                raise
        else:
            if batch.count or self._now() >= until or self._draining.is_set():
                return batch
        return await self.wait(ask, until - self._now(), gone)

    async def wait(self, ask: ReceiveAsk, wait_seconds: float, gone: Callable[[], Awaitable[None]]) -> Batch:
        """Wait for messages and lease them, after a pass that found none, or no leader. Raises the problem if none leads until the end."""
        until = self._now() + wait_seconds
        batch = Batch(ask.topic, ask.group)
        ask = ask._replace(is_filter_new=False)
        watch = asyncio.ensure_future(_until_gone(gone))
        is_vain = False
        try:
            while not batch.count and (left := until - self._now()) > 0 and not self._draining.is_set():
                try:
                    await self._wait(await self._brokers(ask.topic), ask, left, watch)
                    if watch.done():
                        break
                    if is_vain:  # another client took the messages, or a filter excluded them: pause before the next try
                        await asyncio.sleep(VAIN_PAUSE_SECONDS)
                    is_vain = True
                    batch = await self._lease(ask)
                except LeaderAway:
                    if self._now() + LEADER_PAUSE_SECONDS >= until or watch.done():
                        raise
                    await self._routes.wait_for_hint(ask.topic, LEADER_PAUSE_SECONDS)
            return batch
        finally:
            watch.cancel()

    async def _lease(self, ask: ReceiveAsk) -> Batch:
        """Make one pass over the brokers; gives its messages back if the call is cancelled."""
        brokers = self._in_turn(await self._brokers(ask.topic))
        if ask.expression_type:
            await self._spread_filter(brokers, ask)
        passed: asyncio.Future[Batch | Exception] = asyncio.get_running_loop().create_future()

        def on_batch(batch: Batch | Exception) -> None:
            if not passed.done():
                passed.set_result(batch)
            elif isinstance(batch, Batch):
                batch.give_back()

        ask = ask._replace(is_filter_new=False)
        LeasePass(self._routes, brokers, ask, self._show, on_batch).start()
        try:
            batch = await passed
        except asyncio.CancelledError:
            if passed.done() and not passed.cancelled() and isinstance(passed.result(), Batch):
                on_batch(passed.result())
            raise
        if isinstance(batch, Exception):
            raise batch
        return batch

    async def _brokers(self, topic: str) -> Brokers:
        """Return the brokers that hold the topic."""
        brokers = self._holders(self._routes.fresh(topic) or await self._routes.get(topic))
        if not brokers and (leaderless := self._leaderless(topic)):
            raise leader_away(broker_away(", ".join(leaderless)))
        if not brokers:
            detail = f"the topic {topic} may not be read now"
            raise Problem(403, "NO_PERMISSION", detail, field="topic")
        return brokers

    def _leaderless(self, topic: str) -> list[str]:
        """Return the readable brokers of a route that have replicas, of which none leads now; and have the route read again."""
        route = self._routes.fresh(topic)
        if route is None:
            return []
        found = [
            name
            for name, queue in sorted(route.brokers.items())
            if queue.perm & PERM_READ and name in route.slaves and name not in route.addresses
        ]
        if found:
            self._routes.forget(topic)
        return found

    def _holders(self, route: Route) -> Brokers:
        return [
            (name, self._stores.at(name, route.addresses[name]))
            for name, queue in sorted(route.brokers.items())
            if queue.perm & PERM_READ and name in route.addresses
        ]

    def _in_turn(self, brokers: Brokers) -> Brokers:
        """Return the brokers in the order of requests: each time another one is first."""
        self._turn += 1
        first = self._turn % len(brokers)
        return brokers[first:] + brokers[:first]

    async def _spread_filter(self, brokers: Brokers, ask: ReceiveAsk) -> None:
        """Ensure that every broker knows the group's filter before messages are filtered by it."""
        wanted = (ask.expression_type, ask.expression)
        missing = [
            (name, store)
            for name, store in brokers
            if ask.is_filter_new or self._filters.get((ask.topic, ask.group, name)) != wanted
        ]
        if not missing:
            return
        answers = await asyncio.gather(
            *(outcome_of(store.receive, ask._replace(count_max=0)) for _name, store in missing),
            return_exceptions=True,
        )
        for (name, _store), answer in zip(missing, answers, strict=True):
            if isinstance(answer, StoreRefused):
                if _lacks_topic(answer):
                    continue
                raise _problem(answer)
            if isinstance(answer, PeerAway):
                if ask.is_filter_new:
                    raise broker_away(name)
                continue
            if isinstance(answer, BaseException):
                raise answer
            if len(self._filters) >= FILTERS_MAX:
                self._filters.clear()
            self._filters[ask.topic, ask.group, name] = wanted

    async def _wait(
        self, brokers: Brokers, ask: ReceiveAsk, left: float, watch: "asyncio.Task[None]"
    ) -> None:
        """Wait at all brokers until one may have messages, the client disconnects, or the time is over."""
        wait_ms = max(1, int(left * 1000))
        until = self._now() + left
        waits = {asyncio.ensure_future(store.wait(ask.topic, ask.group, wait_ms)) for _name, store in brokers}
        draining = asyncio.ensure_future(self._draining.wait())
        self.waiting += 1
        try:
            while waits:
                await asyncio.wait({*waits, watch, draining}, return_when=asyncio.FIRST_COMPLETED)
                over = {one for one in waits if one.done()}
                if watch.done() or draining.done() or any(_is_ready(one) for one in over):
                    return
                waits -= over
                if any(isinstance(one.exception(), PeerAway) for one in over) and self._now() < until:
                    await asyncio.wait(
                        {watch, draining}, timeout=min(AWAY_PAUSE_SECONDS, until - self._now())
                    )
                    return
        finally:
            self.waiting -= 1
            for one in (*waits, draining):
                one.cancel()


def _is_ready(wait: "asyncio.Task[bool]") -> bool:
    """Whether a wait reports possible messages; an error is left for the next receive to report. A missing topic has none."""
    error = wait.exception()
    if isinstance(error, StoreRefused):
        return not _lacks_topic(error)
    return error is None and wait.result()


async def _until_gone(gone: Callable[[], Awaitable[None]]) -> None:
    await gone()


def _lacks_topic(error: StoreRefused) -> bool:
    return error.code == ResponseCode.TOPIC_NOT_EXIST


def _problem(error: StoreRefused) -> Problem:
    if error.gantry_code == FILTER_CONFLICT:
        return Problem(409, FILTER_CONFLICT, error.remark, field="filter")
    problem = refused(error)
    if error.code == ResponseCode.NO_PERMISSION:
        problem.field = "group" if "group" in error.remark else "topic"
    return problem
