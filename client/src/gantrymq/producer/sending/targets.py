"""The queues of a topic, in turn, as targets of sends. No IO."""

from __future__ import annotations

import random
from collections.abc import Sequence

from gantrymq.errors import InvalidMessage, NoRoute
from gantrymq.message import MessageQueue
from gantrymq.producer.sending.send import Target


class TopicTargets:
    """The targets of a topic, in turn."""

    __slots__ = ("_at", "_by_queue", "_count", "queues", "refresh_at", "targets", "topic")

    def __init__(
        self, topic: str, targets: Sequence[Target], rng: random.Random, refresh_at: float | None = None
    ) -> None:
        """`rng` chooses the first queue, which spreads producers over queues. `refresh_at`: loop time from which the route should be queried again; None: only when it changes."""
        self.topic: str = topic
        self.targets: list[Target] = list(targets)
        self.queues: list[MessageQueue] = [target.queue for target in self.targets]
        self.refresh_at: float | None = refresh_at
        self._count = len(self.targets)
        self._by_queue = {target.queue[1:]: target for target in self.targets}
        self._at = rng.randrange(self._count)

    def next(self) -> Target:
        """Return the next target in turn."""
        at = self._at = self._at + 1
        return self.targets[at % self._count]

    def next_avoiding(self, broker: str) -> Target:
        """Return the next target in turn on another broker, if there is another."""
        for _ in range(self._count):
            target = self.next()
            if target.queue.broker != broker:
                return target
        return self.next()

    def take_turn(self) -> int:
        """Return the index of the next target in turn, for other ways of choosing."""
        self._at += 1
        return self._at % self._count

    def of(self, queue: MessageQueue) -> Target:
        """Return the target of a chosen queue; NoRoute if the topic has no such writable queue."""
        if not isinstance(queue, MessageQueue):  # pyright: ignore[reportUnnecessaryIsInstance] - what users pass
            raise InvalidMessage("queue", f"must be a MessageQueue, not {queue!r}")
        if queue.topic != self.topic:
            raise InvalidMessage("queue", f"it belongs to topic {queue.topic}, the message to {self.topic}")
        found = self._by_queue.get(queue[1:])
        if found is None:
            raise NoRoute(
                f"topic {self.topic} has no writable queue {queue.queue_id} on broker {queue.broker} now"
            )
        return found
