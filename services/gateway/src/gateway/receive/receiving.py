"""Receives: messages leased at the brokers of a topic in turn; waited for at all of them without leasing.

What is leased and cannot be written to the client is given back at once.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple

from gantry_wire.codes import ResponseCode
from gantry_wire.errors import MalformedRecord
from gantry_wire.lease_headers import FILTER_CONFLICT, ItemKind, LeaseItem
from gateway.http.problems import Problem, broker_away, refused, topic_missing
from gateway.ports.leases import Leased, LeaseStore, LeaseStores, ReceiveAsk
from gateway.ports.stores import PeerAway, StoreRefused
from gateway.receive.receipts import Receipts
from gateway.receive.received_view import Shown, shown
from gateway.routing.route_cache import PERM_READ, Route, RouteCache

FILTERS_MAX = 10_000
"""Groups whose filter is known to be at every broker."""
VAIN_PAUSE_SECONDS = 0.005
"""Between receives of one call that were told of something and found nothing."""
AWAY_PAUSE_SECONDS = 0.5
"""How long to wait before a broker that does not answer is asked to wait again."""


class Taken(NamedTuple):
    """Messages of one broker: their JSON, and what gives them back."""

    store: LeaseStore
    shown: Shown


Brokers = list[tuple[str, LeaseStore]]
"""The brokers that hold a topic, in the order in which they are asked."""


class Batch:
    """What one receive got."""

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

    def json(self) -> bytes:
        """Return the reply's body."""
        return (
            b'{"messages":[' + b",".join([part for one in self._taken for part in one.shown.parts]) + b"]}\n"
        )

    def give_back(self) -> None:
        """Let others have the messages at once: they reach nobody."""
        for one in self._taken:
            items = [LeaseItem(ItemKind.RELEASE, *place) for place in one.shown.all_places()]
            task = asyncio.ensure_future(one.store.release(self._topic, self._group, items))
            self._returning.add(task)
            task.add_done_callback(self._returning.discard)


class Begun(NamedTuple):
    """What the first broker of a receive said, or what was raised in place of it."""

    brokers: Brokers
    outcome: Leased | Exception


class Receiver:
    """Receives on behalf of clients."""

    def __init__(self, routes: RouteCache, stores: LeaseStores, now: Callable[[], float]) -> None:
        self._routes, self._stores, self._now = routes, stores, now
        self._turn = 0
        self._filters: dict[tuple[str, str, str], tuple[str, str]] = {}
        self._draining = asyncio.Event()
        self.waiting = 0
        """Receives that wait for a message."""

    def drain(self) -> None:
        """Let every receive that waits answer now."""
        self._draining.set()

    def begin(self, ask: ReceiveAsk, told: Callable[[Brokers, Leased | Exception], None]) -> bool:
        """Ask the first broker without a task, `ask` without a filter; False: not begun, it is for `receive`."""
        route = self._routes.fresh(ask.topic)
        brokers = [] if route is None else self._in_turn(route)
        return bool(brokers) and brokers[0][1].begin_receive(ask, partial(told, brokers))

    def batch_of(self, ask: ReceiveAsk, brokers: Brokers, leased: Leased) -> Batch | None:
        """Return what the first broker gave where that ends the receive; None where `receive` has to go on with it."""
        count = sum([run.records for run in leased.runs])
        if not count or (count < ask.count_max and len(brokers) > 1):
            return None
        batch = Batch(ask.topic, ask.group)
        batch.add(_shown(ask, *brokers[0], leased, Receipts(ask.topic, ask.group)))
        return batch

    async def receive(
        self,
        ask: ReceiveAsk,
        wait_seconds: float,
        gone: Callable[[], Awaitable[None]],
        begun: Begun | None = None,
    ) -> Batch:
        """Lease up to `ask.count_max` messages, waiting for the first while there is none; `gone` returns when the client is.

        `begun`: the first broker was asked already. Raises the problem where topic or group do not allow it, or no broker answers.
        """
        until = self._now() + wait_seconds
        watch: asyncio.Task[None] | None = None
        is_vain = False
        try:
            while True:
                brokers = await self._brokers(ask.topic) if begun is None else begun.brokers
                if ask.expression_type:
                    await self._spread_filter(brokers, ask)
                batch = await self._lease(brokers, ask._replace(is_filter_new=False), begun)
                begun = None
                left = until - self._now()
                if batch.count or left <= 0 or self._draining.is_set():
                    return batch
                watch = watch or asyncio.ensure_future(_watched(gone))
                await self._wait(brokers, ask, left, watch)
                if watch.done():
                    return batch
                if is_vain:  # what was there, others took, or a filter left out: leave time to others
                    await asyncio.sleep(VAIN_PAUSE_SECONDS)
                is_vain = True
                ask = ask._replace(is_filter_new=False)
        finally:
            if watch is not None:
                watch.cancel()

    async def _brokers(self, topic: str) -> Brokers:
        """Return the brokers that hold the topic, in another order each time."""
        brokers = self._in_turn(self._routes.fresh(topic) or await self._routes.get(topic))
        if not brokers:
            words = f"the topic {topic} may not be read now"
            raise Problem(403, "NO_PERMISSION", words, field="topic")
        return brokers

    def _in_turn(self, route: Route) -> Brokers:
        names = [
            name
            for name, queue in sorted(route.brokers.items())
            if queue.perm & PERM_READ and name in route.addresses
        ]
        self._turn += 1
        first = self._turn % len(names) if names else 0
        return [
            (name, self._stores.at(name, route.addresses[name])) for name in names[first:] + names[:first]
        ]

    async def _spread_filter(self, brokers: Brokers, ask: ReceiveAsk) -> None:
        """See that every broker knows the group's filter: what is left out later means this one."""
        wanted = (ask.expression_type, ask.expression)
        missing = [
            (name, store)
            for name, store in brokers
            if ask.is_filter_new or self._filters.get((ask.topic, ask.group, name)) != wanted
        ]
        if not missing:
            return
        answers = await asyncio.gather(
            *(store.receive(ask._replace(count_max=0)) for _name, store in missing), return_exceptions=True
        )
        for (name, _store), answer in zip(missing, answers, strict=True):
            if isinstance(answer, StoreRefused):
                raise _problem(ask, answer)
            if isinstance(answer, PeerAway):
                if ask.is_filter_new:
                    raise broker_away(name)
                continue
            if isinstance(answer, BaseException):
                raise answer
            if len(self._filters) >= FILTERS_MAX:
                self._filters.clear()
            self._filters[ask.topic, ask.group, name] = wanted

    async def _lease(self, brokers: Brokers, ask: ReceiveAsk, begun: Begun | None = None) -> Batch:
        """Lease at one broker after the other until there is enough; what the first one said may be known."""
        batch = Batch(ask.topic, ask.group)
        away: list[str] = []
        receipts = Receipts(ask.topic, ask.group)
        for name, store in brokers:
            left = ask.count_max - batch.count
            if left <= 0:
                break
            first, begun = begun, None
            try:
                leased = await _leased(store, ask._replace(count_max=left), first)
            except StoreRefused as error:
                if not batch.count:
                    raise _problem(ask, error) from error
            except PeerAway:
                away.append(name)
                self._routes.forget(ask.topic)
            except asyncio.CancelledError:
                batch.give_back()
                raise
            else:
                if leased.runs:
                    batch.add(_shown(ask, name, store, leased, receipts))
        if away and not batch.count and len(away) == len(brokers):
            raise broker_away(", ".join(sorted(away)))
        return batch

    async def _wait(
        self, brokers: Brokers, ask: ReceiveAsk, left: float, watch: "asyncio.Task[None]"
    ) -> None:
        """Wait at all brokers until one may have something, the client is gone, or the time is over."""
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


async def _leased(store: LeaseStore, ask: ReceiveAsk, begun: Begun | None) -> Leased:
    """Return what a store leases, or what it said already."""
    if begun is None:
        return await store.receive(ask)
    if isinstance(begun.outcome, Exception):
        raise begun.outcome
    return begun.outcome


def _is_ready(wait: "asyncio.Task[bool]") -> bool:
    """Whether a wait says that there may be something; a refusal is for the next receive to tell."""
    error = wait.exception()
    return isinstance(error, StoreRefused) or (error is None and wait.result())


async def _watched(gone: Callable[[], Awaitable[None]]) -> None:
    await gone()


def _shown(ask: ReceiveAsk, broker: str, store: LeaseStore, leased: Leased, receipts: Receipts) -> Taken:
    """Return leased messages as JSON, each with its handle."""
    try:
        messages = shown(leased.records, leased.runs, broker, ask.topic, leased.until_ms, receipts)
    except MalformedRecord as error:
        words = f"broker {broker} answered damaged records: {error}"
        raise Problem(503, "SYSTEM_ERROR", words, retryable=True) from error
    return Taken(store, messages)


def _problem(ask: ReceiveAsk, error: StoreRefused) -> Problem:
    if error.gantry_code == FILTER_CONFLICT:
        return Problem(409, FILTER_CONFLICT, error.remark, field="filter")
    if error.code == ResponseCode.TOPIC_NOT_EXIST:
        return topic_missing(ask.topic)
    problem = refused(error)
    if error.code == ResponseCode.NO_PERMISSION:
        problem.field = "group" if "group" in error.remark else "topic"
    return problem
