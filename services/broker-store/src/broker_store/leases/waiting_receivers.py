"""Clients that wait for messages without leasing them. Arrivals and due messages wake them. Pure.

As many are woken as messages may be available, oldest first. A client that does not fetch them leaves them
to others: `Leasing` offers them again after a moment.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from gantry_wire.subscription import TagFilter

WAITERS_MAX = 100_000

GroupTopic = tuple[str, str]


class WaitPeer(Protocol):
    """The connection of a wait."""

    @property
    def id(self) -> int:
        """Number of the connection."""
        ...


class Waiter:
    """One wait."""

    __slots__ = ("answer", "deadline_ms", "key", "peer", "queue_id", "wait_id")

    def __init__(
        self,
        key: GroupTopic,
        wait_id: int,
        deadline_ms: int,
        peer: WaitPeer,
        answer: Callable[[bool], object],
        queue_id: int = -1,
    ) -> None:
        """`answer` is called once, with whether a receive may find something. `queue_id` -1: in any queue."""
        self.key = key
        self.wait_id = wait_id
        self.deadline_ms = deadline_ms
        self.peer = peer
        self.answer = answer
        self.queue_id = queue_id

    def wants(self, queue_id: int) -> bool:
        """Whether messages of a queue, -1 for any, concern it."""
        return self.queue_id < 0 or queue_id < 0 or self.queue_id == queue_id


class Waiters:
    """All waits, by group and topic, in the order they came."""

    def __init__(self) -> None:
        self._by_key: dict[GroupTopic, dict[tuple[int, int], Waiter]] = {}
        self._by_topic: dict[str, dict[str, TagFilter]] = {}
        self.count = 0

    @property
    def is_full(self) -> bool:
        """Whether no further wait is accepted."""
        return self.count >= WAITERS_MAX

    def keys_now(self) -> list[GroupTopic]:
        """Return the (group, topic) of all waits."""
        return list(self._by_key)

    def add(self, waiter: Waiter, codes: TagFilter) -> Waiter | None:
        """Keep a wait. Returns the one with the same id that it replaces. `codes` are the tags codes it wants."""
        group, topic = waiter.key
        replaced = self.drop(waiter.key, waiter.peer.id, waiter.wait_id)
        self._by_key.setdefault(waiter.key, {})[waiter.peer.id, waiter.wait_id] = waiter
        self._by_topic.setdefault(topic, {})[group] = codes
        self.count += 1
        return replaced

    def drop(self, key: GroupTopic, peer_id: int, wait_id: int) -> Waiter | None:
        """Drop one wait."""
        waiting = self._by_key.get(key)
        waiter = None if waiting is None else waiting.pop((peer_id, wait_id), None)
        if waiter is not None:
            self._dropped(key, 1)
        return waiter

    def count_of(self, key: GroupTopic) -> int:
        """Return how many waits a group has in a topic."""
        return len(self._by_key.get(key, ()))

    def arrived(self, topic: str, tags_codes: Sequence[int], queue_id: int) -> list[Waiter]:
        """Remove and return the waits that new messages in a queue may concern."""
        groups = self._by_topic.get(topic)
        if groups is None:
            return []
        woken: list[Waiter] = []
        for group, codes in list(groups.items()):
            count = len(tags_codes) if codes.codes is None else sum(map(codes.matches, tags_codes))
            if count:
                woken += self.take((group, topic), count, queue_id)
        return woken

    def take(self, key: GroupTopic, count: int, queue_id: int = -1) -> list[Waiter]:
        """Remove and return up to `count` waits that want messages of a queue, oldest first."""
        waiting = self._by_key.get(key)
        if not waiting:
            return []
        chosen = [one for one, waiter in waiting.items() if waiter.wants(queue_id)][:count]
        taken = [waiting.pop(one) for one in chosen]
        self._dropped(key, len(taken))
        return taken

    def take_if(self, keys: Iterable[GroupTopic]) -> list[Waiter]:
        """Remove and return all waits of these keys."""
        return [waiter for key in keys for waiter in self.take(key, WAITERS_MAX)]

    def expire(self, now_ms: int) -> list[Waiter]:
        """Remove and return the waits whose time is over."""
        late = [
            one for of_key in self._by_key.values() for one in of_key.values() if one.deadline_ms <= now_ms
        ]
        for one in late:
            self.drop(one.key, one.peer.id, one.wait_id)
        return late

    def close_peer(self, peer_id: int) -> None:
        """Drop the waits of a closed connection."""
        gone = [one for of_key in self._by_key.values() for one in of_key.values() if one.peer.id == peer_id]
        for one in gone:
            self.drop(one.key, peer_id, one.wait_id)

    def _dropped(self, key: GroupTopic, count: int) -> None:
        self.count -= count
        if not self._by_key[key]:
            del self._by_key[key]
            group, topic = key
            groups = self._by_topic[topic]
            del groups[group]
            if not groups:
                del self._by_topic[topic]
