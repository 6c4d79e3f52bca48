"""Holders of a group's queues: at most one client per queue, until 60 s after its last refresh. Pure: callers pass `now`.

A lock belongs to a group and queue. It ends when it is released, 60 s after its last refresh, or when its
client closes the connection that refreshed it last. Times are monotonic: no step of the wall clock changes
a lock's duration.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

LOCK_MS = 60_000
"""RocketMQ's rocketmq.broker.rebalance.lockMaxLiveTime."""

QueueName = tuple[str, str, int]
"""Topic, broker name, queue id."""


@dataclass(slots=True)
class Lock:
    """A locked queue."""

    client_id: str
    refreshed_ms: int
    peer_id: int
    """Connection of the last refresh, 0 after a restart."""


class LockTable:
    """All locks of a store."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[QueueName, Lock]] = {}
        self._of_peer: dict[int, set[str]] = {}
        # Groups by connection: a thousand connections that close must not each scan ten thousand groups.
        self.size = 0
        """Number of locks, including ended ones that are not removed yet."""

    def lock(
        self, group: str, client_id: str, queues: Iterable[QueueName], now_ms: int, peer_id: int
    ) -> tuple[list[QueueName], list[QueueName]]:
        """Lock queues for a client. Returns those it now holds, and those of them that changed their holder."""
        locks = self._groups.setdefault(group, {})
        held: list[QueueName] = []
        changed: list[QueueName] = []
        for queue in queues:
            lock = locks.get(queue)
            if lock is not None and lock.client_id != client_id and now_ms - lock.refreshed_ms <= LOCK_MS:
                continue
            if lock is None or lock.client_id != client_id:
                self.size += lock is None
                locks[queue] = Lock(client_id, now_ms, peer_id)
                changed.append(queue)
            else:
                lock.refreshed_ms, lock.peer_id = now_ms, peer_id
            held.append(queue)
        if held:
            self._of_peer.setdefault(peer_id, set()).add(group)
        if not locks:
            del self._groups[group]
        return held, changed

    def held_by(self, group: str, client_id: str, queues: Iterable[QueueName]) -> list[QueueName]:
        """Return those of the queues that the client holds."""
        locks = self._groups.get(group, {})
        return [
            queue
            for queue in queues
            if (lock := locks.get(queue)) is not None and lock.client_id == client_id
        ]

    def unlock(self, group: str, client_id: str, queues: Iterable[QueueName]) -> bool:
        """Unlock queues. Those of another holder stay. Returns whether anything changed."""
        return self._drop(group, self.held_by(group, client_id, queues))

    def unregister(self, group: str, client_id: str) -> bool:
        """Release all locks of a client that leaves its group."""
        locks = self._groups.get(group, {})
        return self._drop(group, [queue for queue, lock in locks.items() if lock.client_id == client_id])

    def closed(self, peer_id: int, *, by_client: bool) -> bool:
        """Forget a connection. Releases the locks last refreshed over it if its client closed it."""
        groups = self._of_peer.pop(peer_id, set())
        found = [
            (group, [queue for queue, lock in self._groups.get(group, {}).items() if lock.peer_id == peer_id])
            for group in groups
            if by_client
        ]
        return any([self._drop(group, queues) for group, queues in found])  # noqa: C419 - must drop all, not only the first

    def expire(self, now_ms: int) -> bool:
        """Remove ended locks."""
        found = [
            (group, [queue for queue, lock in locks.items() if now_ms - lock.refreshed_ms > LOCK_MS])
            for group, locks in self._groups.items()
        ]
        return any([self._drop(group, queues) for group, queues in found])  # noqa: C419 - all of them

    def is_locked(self, group: str, now_ms: int) -> bool:
        """Whether a client holds a queue of the group."""
        locks = self._groups.get(group)
        return locks is not None and any(now_ms - lock.refreshed_ms <= LOCK_MS for lock in locks.values())

    def holders(self) -> dict[str, list[list[str | int]]]:
        """Return group → [topic, broker, queue id, client id]: what is saved."""
        return {
            group: [[*queue, lock.client_id] for queue, lock in locks.items()]
            for group, locks in sorted(self._groups.items())
        }

    def load(self, content: object, now_ms: int) -> None:
        """Load saved holders as refreshed now. Ignores content of another format."""
        try:
            saved = msgspec.convert(content, dict[str, list[tuple[str, str, int, str]]])
        except msgspec.ValidationError:
            return
        for group, locks in saved.items():
            self._groups[group] = {
                (topic, broker, queue_id): Lock(client_id, now_ms, 0)
                for topic, broker, queue_id, client_id in locks
            }
        self.size = sum(map(len, self._groups.values()))

    def _drop(self, group: str, queues: list[QueueName]) -> bool:
        locks = self._groups.get(group)
        if locks is None or not queues:
            return False
        for queue in queues:
            del locks[queue]
        self.size -= len(queues)
        if not locks:
            del self._groups[group]
        return True
