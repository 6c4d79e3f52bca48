"""Pulls by offset: one queue of one broker, held until a message arrives or the time is over.

At shutdown, held pulls return at once with the messages found by then.
"""

import asyncio
from collections.abc import Callable
from typing import Generic, Literal, NamedTuple, Protocol, TypeVar

from gantry_wire.bounded_cache import BoundedCache
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import MalformedRecord
from gantry_wire.private_requests.leading import NOT_LEADER
from gantry_wire.subscription import TagFilter
from gateway.http.call import ClientGone
from gateway.http.problems import (
    LeaderAway,
    Problem,
    broker_away,
    broker_missing,
    leader_away,
    refused,
    topic_missing,
    unanswered,
)
from gateway.ports.stores import PeerAway, Pulled, Store, StoreRefused, Stores
from gateway.routing.brokers import KnownBrokers
from gateway.routing.route_cache import RouteCache

REPLY_BYTES_MAX = 4 * 1024 * 1024
"""A store ends its responses at 256 KiB; larger replies are joined from several, up to this size."""
ROUNDS_MAX = 64
"""Pulls for one reply: 1024 messages, at least 32 per pull if they are small, fewer if they are old."""

SUGGESTIONS_MAX = 65_536
LEADER_SECONDS = 1.0
"""How long a pull that does not wait for messages waits for the next leader of a broker."""
LEADER_PAUSE_SECONDS = 0.1
"""Pause before another try while no replica leads. A hint ends it at once."""
TRIES_MAX = 1000

M = TypeVar("M")
"""A message in the form of a protocol."""

Status = Literal["FOUND", "NO_NEW_MSG", "NO_MATCHED_MSG", "OFFSET_ILLEGAL"]
_STATUS: dict[int, Status] = {
    ResponseCode.SUCCESS: "FOUND",
    ResponseCode.PULL_NOT_FOUND: "NO_NEW_MSG",
    ResponseCode.PULL_RETRY_IMMEDIATELY: "NO_MATCHED_MSG",
    ResponseCode.PULL_OFFSET_MOVED: "OFFSET_ILLEGAL",
}


class Client(Protocol):
    """The client of a pull."""

    @property
    def is_lost(self) -> bool:
        """Whether its connection is closed."""
        ...

    def when_lost(self, call: Callable[[], object] | None) -> None:
        """Call `call` when its connection closes, instead of the callback set before; None removes it."""
        ...


class Selection(NamedTuple):
    """The requested messages of a queue, by tags or by a condition in SQL92; and the form of bodies."""

    tags: TagFilter
    sql: str = ""
    as_base64: bool = False


Show = Callable[[Pulled, str, Selection], list[M]]
"""Returns the selected ones of the messages that a broker gave, in the form of a protocol. Raises MalformedRecord."""


class Found(NamedTuple, Generic[M]):
    """The messages of a pull, and the offset to continue at."""

    status: Status
    next_offset: int
    min_offset: int
    max_offset: int
    messages: list[M]


class _Place(NamedTuple):
    """A queue."""

    topic: str
    broker: str
    queue_id: int


class Puller(Generic[M]):
    """Pulls on behalf of the clients of one protocol; tracks held pulls."""

    def __init__(
        self,
        routes: RouteCache,
        stores: Stores,
        known: KnownBrokers,
        show: Show[M],
        now: Callable[[], float],
    ) -> None:
        """`show` formats messages as the protocol needs them. A store filters by the hash of a tag: it removes those that only share the hash."""
        self._routes, self._stores, self._known, self._now = routes, stores, known, now
        self._show = show
        self._held: set[asyncio.Task[Pulled]] = set()
        self._suggested: BoundedCache[_Place, int] = BoundedCache(SUGGESTIONS_MAX)
        """The broker id of the slave that a broker suggested for a queue."""
        self._is_draining = False

    @property
    def held_count(self) -> int:
        """How many pulls wait for a message."""
        return len(self._held)

    @property
    def is_draining(self) -> bool:
        """Whether pulls are no longer held."""
        return self._is_draining

    def drain(self) -> None:
        """Answer every held pull now, and hold none from now on."""
        self._is_draining = True
        for task in self._held:
            task.cancel()

    async def pull(
        self,
        topic: str,
        broker: str,
        queue_id: int,
        offset: int,
        *,
        count_max: int,
        wait_ms: int,
        selection: Selection,
        client: Client,
    ) -> Found[M]:
        """Return the messages at `offset` of a queue; raises the problem if topic, broker or queue do not exist.

        A held pull raises ClientGone when its client disconnects. While another replica takes over the broker, it is repeated.
        """
        until = self._now() + max(wait_ms / 1000, LEADER_SECONDS)
        place = _Place(topic, broker, queue_id)
        for _ in range(TRIES_MAX):
            try:
                return await self._pull(place, offset, count_max, wait_ms, selection, client)
            except LeaderAway:
                left = until - self._now()
                if left <= 0 or client.is_lost or self._is_draining:
                    raise
            await self._routes.wait_for_hint(topic, min(LEADER_PAUSE_SECONDS, left))
            wait_ms = min(wait_ms, max(0, int((until - self._now()) * 1000)))
        return await self._pull(place, offset, count_max, wait_ms, selection, client)

    async def _pull(
        self,
        place: "_Place",
        offset: int,
        count_max: int,
        wait_ms: int,
        selection: Selection,
        client: Client,
    ) -> Found[M]:
        """Pull once. Raises LeaderAway if another replica of the broker may answer soon."""
        topic, broker, queue_id = place
        store = await self._store(place)
        queue = _Wanted(store, topic, queue_id, selection, self._show)
        try:
            pulled = await self._held_pull(queue, offset, count_max, wait_ms, client)
            found = queue.messages(pulled)
            if found and len(found) < count_max and pulled.next_offset < pulled.max_offset:
                pulled = await _fill(queue, pulled, found, count_max)
        except StoreRefused as error:
            self._suggest(place, 0)
            if error.gantry_code == NOT_LEADER:
                self._routes.forget(topic)
                raise leader_away(refused(error)) from error
            raise _pull_refused(topic, error) from error
        except PeerAway as error:
            self._suggest(place, 0)
            self._routes.forget(topic)
            problem = unanswered(error, is_write=False)
            is_replicated = self._routes.is_replicated(topic, (broker,))
            raise (leader_away(problem) if is_replicated else problem) from error
        except MalformedRecord as error:
            raise Problem(
                503, "SYSTEM_ERROR", f"broker {broker} answered damaged records: {error}", retryable=True
            ) from error
        self._suggest(place, pulled.suggested_broker_id)
        return _reply(pulled, found)

    def _suggest(self, place: "_Place", broker_id: int) -> None:
        """Note from which replica a queue is read next; 0 is the master."""
        if (self._suggested.get(place) or 0) != broker_id:
            self._suggested.keep(place, broker_id)

    async def _store(self, place: "_Place") -> Store:
        topic, broker, _queue_id = place
        route = self._routes.fresh(topic) or await self._routes.get(topic)
        if route.share(broker) is not None:
            suggested_id = self._suggested.get(place) or 0
            return self._stores.at(broker, route.pull_address(broker, suggested_id))
        if self._known.is_expected(broker, self._now()) or await self._is_listed(topic, broker):
            raise broker_away(broker)
        raise broker_missing(broker)

    async def _is_listed(self, topic: str, broker: str) -> bool:
        history = await self._routes.read_list(topic)
        return history is not None and history.current.only(broker) is not None

    async def _held_pull(
        self, queue: "_Wanted[M]", offset: int, count_max: int, wait_ms: int, client: Client
    ) -> Pulled:
        if wait_ms == 0 or self._is_draining:
            return await queue.pull(offset, count_max, 0)
        task = asyncio.ensure_future(queue.pull(offset, count_max, wait_ms))
        self._held.add(task)
        client.when_lost(task.cancel)
        try:
            return await task
        except asyncio.CancelledError as error:
            if client.is_lost:
                raise ClientGone from error
            if not self._is_draining:
                task.cancel()
                raise
            return await queue.pull(offset, count_max, 0)
        finally:
            client.when_lost(None)
            self._held.discard(task)


class _Wanted(Generic[M]):
    """The queue of a pull, and its filter."""

    __slots__ = ("_expression", "_queue_id", "_selection", "_show", "_store", "_topic")

    def __init__(self, store: Store, topic: str, queue_id: int, selection: Selection, show: Show[M]) -> None:
        self._store, self._topic, self._queue_id = store, topic, queue_id
        self._selection, self._show = selection, show
        self._expression = "||".join(sorted(selection.tags.names))

    async def pull(self, offset: int, count_max: int, wait_ms: int) -> Pulled:
        """Pull from the store once."""
        return await self._store.pull(
            self._topic, self._queue_id, offset, count_max, wait_ms, self._expression, sql=self._selection.sql
        )

    def messages(self, pulled: Pulled) -> list[M]:
        """Return the pulled messages."""
        return self._show(pulled, self._store.broker, self._selection)


async def _fill(queue: _Wanted[M], pulled: Pulled, found: list[M], count_max: int) -> Pulled:
    """Add messages to `found` until there are enough; keeps the messages found if a later pull fails."""
    size = len(pulled.records)
    for _ in range(ROUNDS_MAX):
        try:
            more = await queue.pull(pulled.next_offset, count_max - len(found), 0)
            if more.code not in {ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY}:
                break
            found += queue.messages(more)
        except (StoreRefused, PeerAway, MalformedRecord):
            break
        size += len(more.records)
        pulled = more._replace(code=pulled.code)
        if len(found) >= count_max or size >= REPLY_BYTES_MAX or pulled.next_offset >= pulled.max_offset:
            break
    return pulled


def _pull_refused(topic: str, error: StoreRefused) -> Problem:
    if error.code == ResponseCode.TOPIC_NOT_EXIST:
        return topic_missing(topic)
    problem = refused(error)
    if error.code == ResponseCode.INVALID_PARAMETER:
        problem.field = "queueId"
    return problem


def _reply(pulled: Pulled, found: list[M]) -> Found[M]:
    status = _STATUS.get(pulled.code, "NO_NEW_MSG")
    if status == "FOUND" and not found:
        status = "NO_MATCHED_MSG"
    return Found(status, pulled.next_offset, pulled.min_offset, pulled.max_offset, found)
