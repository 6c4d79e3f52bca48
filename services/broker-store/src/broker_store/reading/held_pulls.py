"""Held pulls: which queue and offset each waits for, and until when.

Pure: callers report arrivals, closed connections and the time, and answer the returned pulls. Every step
costs the same with 10 held pulls as with 10,000. Never reads a socket, a topic's settings or a message.
"""

from collections.abc import Sequence
from typing import Generic, TypeVar

from gantry_wire.subscription import TagFilter

QueueKey = tuple[str, int]
"""(topic, queue id)."""
RequestT = TypeVar("RequestT")

TICK_MS = 50
"""Step of deadlines in ms: a pull is answered at most this late."""
HELD_MAX = 100_000
"""Most held pulls. One more is answered empty at once (RocketMQ's capacity of its pull queue)."""


class HeldPull(Generic[RequestT]):
    """A waiting pull. `offset` moves past messages that its filter does not want."""

    __slots__ = ("deadline_ms", "key", "offset", "peer_id", "request", "wait_id", "wanted")

    def __init__(
        self,
        key: QueueKey,
        offset: int,
        wanted: TagFilter,
        deadline_ms: int,
        peer_id: int,
        request: RequestT,
        wait_id: int | None = None,
    ) -> None:
        self.key = key
        self.offset = offset
        self.wanted = wanted
        self.deadline_ms = deadline_ms
        self.peer_id = peer_id
        self.request = request
        """The caller's request. Not read here."""
        self.wait_id = wait_id
        """The number by which its connection may end it."""


Held = dict[HeldPull[RequestT], None]
"""A set in order of arrival."""


class HeldPulls(Generic[RequestT]):
    """All held pulls of a store."""

    def __init__(self) -> None:
        self._by_queue: dict[QueueKey, Held[RequestT]] = {}
        self._by_tick: dict[int, Held[RequestT]] = {}
        self._by_peer: dict[int, Held[RequestT]] = {}
        self._by_wait: dict[tuple[int, int], HeldPull[RequestT]] = {}
        self.count = 0
        """Number of held pulls."""

    @property
    def is_full(self) -> bool:
        """Whether no further pull may be held."""
        return self.count >= HELD_MAX

    def is_awaited(self, key: QueueKey) -> bool:
        """Whether a pull waits on this queue."""
        return key in self._by_queue

    def hold(self, held: HeldPull[RequestT]) -> None:
        """Hold a pull that found nothing. The caller has checked that the queue ends at its offset."""
        assert not self.is_full
        _enter(self._by_queue, held.key, held)
        _enter(self._by_tick, _tick(held), held)
        _enter(self._by_peer, held.peer_id, held)
        if held.wait_id is not None:
            self._by_wait[held.peer_id, held.wait_id] = held
        self.count += 1

    def wake(self, key: QueueKey, first_offset: int, tags_codes: Sequence[int]) -> list[HeldPull[RequestT]]:
        """Remove and return the pulls that messages from `first_offset` on answer.

        The others stay, and move past what they do not want.
        """
        waiting = self._by_queue.get(key)
        if waiting is None:
            return []
        end = first_offset + len(tags_codes)
        woken: list[HeldPull[RequestT]] = []
        for held in waiting:
            if held.offset >= end:
                continue
            if _is_wanted(held, first_offset, tags_codes):
                woken.append(held)
            else:
                held.offset = end
        for held in woken:
            self._drop(held)
        return woken

    def expire(self, now_ms: int) -> list[HeldPull[RequestT]]:
        """Remove and return the pulls whose deadline has passed."""
        ticks = sorted(tick for tick in self._by_tick if tick * TICK_MS <= now_ms)
        return self._take([held for tick in ticks for held in self._by_tick[tick]])

    def next_expiry_ms(self) -> int | None:
        """Return when `expire` must next be called, None while nothing is held."""
        return min(self._by_tick) * TICK_MS if self._by_tick else None

    def close_peer(self, peer_id: int) -> int:
        """Remove the pulls of a closed connection. Returns how many there were."""
        return len(self._take(list(self._by_peer.get(peer_id, ()))))

    def end(self, peer_id: int, wait_id: int) -> bool:
        """Remove one pull of a connection. False when it has none with this number."""
        held = self._by_wait.get((peer_id, wait_id))
        if held is not None:
            self._drop(held)
        return held is not None

    def lowest_offsets(self) -> list[tuple[QueueKey, int]]:
        """Return the queues that pulls wait for, each with the lowest offset of its pulls."""
        return [(key, min(held.offset for held in waiting)) for key, waiting in self._by_queue.items()]

    def take_topic(self, topic: str) -> list[HeldPull[RequestT]]:
        """Remove and return all pulls on queues of a topic."""
        keys = [key for key in self._by_queue if key[0] == topic]
        return self._take([held for key in keys for held in self._by_queue[key]])

    def take_all(self) -> list[HeldPull[RequestT]]:
        """Remove and return all pulls, to answer them before the store stops."""
        return self._take([held for waiting in self._by_queue.values() for held in waiting])

    def _take(self, taken: list[HeldPull[RequestT]]) -> list[HeldPull[RequestT]]:
        for held in taken:
            self._drop(held)
        return taken

    def _drop(self, held: HeldPull[RequestT]) -> None:
        _leave(self._by_queue, held.key, held)
        _leave(self._by_tick, _tick(held), held)
        _leave(self._by_peer, held.peer_id, held)
        if held.wait_id is not None and self._by_wait.get((held.peer_id, held.wait_id)) is held:
            del self._by_wait[held.peer_id, held.wait_id]
        self.count -= 1


KeyT = TypeVar("KeyT")


def _tick(held: HeldPull[RequestT]) -> int:
    """Return the first step at or after the deadline."""
    return -(-held.deadline_ms // TICK_MS)


def _enter(table: dict[KeyT, Held[RequestT]], key: KeyT, held: HeldPull[RequestT]) -> None:
    waiting = table.get(key)
    if waiting is None:
        table[key] = {held: None}
    else:
        waiting[held] = None


def _leave(table: dict[KeyT, Held[RequestT]], key: KeyT, held: HeldPull[RequestT]) -> None:
    waiting = table[key]
    del waiting[held]
    if not waiting:
        del table[key]


def _is_wanted(held: HeldPull[RequestT], first_offset: int, tags_codes: Sequence[int]) -> bool:
    """Whether any message from the pull's offset on passes its filter."""
    wanted = held.wanted
    if (
        wanted.codes is None or held.offset < first_offset
    ):  # it was never shown what lies before: check it again
        return True
    skip = held.offset - first_offset
    return any(map(wanted.matches, tags_codes[skip:] if skip else tags_codes))
