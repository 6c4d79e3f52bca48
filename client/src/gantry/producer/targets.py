"""Where messages of one topic go: its queues, each with its broker's address and the constant parts of its requests. No IO."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gantry.errors import InvalidMessage, NoRoute
from gantry.message import MessageQueue
from gantry_link.send_pattern import SendPattern
from gantry_wire.headers import SendHeaderV2
from gantry_wire.limits import TOPIC_QUEUES_DEFAULT
from gantry_wire.names import AUTO_CREATE_TOPIC

if TYPE_CHECKING:
    from gantry.producer.send import Send


class Target:
    """One queue as it is sent to."""

    __slots__ = ("add", "address", "group", "pattern", "queue", "topic")

    def __init__(
        self, queue: MessageQueue, address: str, group: str, topic: str, add: Callable[[Send], None]
    ) -> None:
        """`topic` as the cluster knows it; `queue` has it as the user does; `add` has a send leave with others to its broker."""
        self.queue: MessageQueue = queue
        self.address: str = address
        self.add: Callable[[Send], None] = add
        self.group: str = group
        self.topic: str = topic
        self.pattern: SendPattern = SendPattern(self.header(0, 0, 0, ""))

    def header(self, born_ms: int, sys_flag: int, flag: int, properties: str) -> SendHeaderV2:
        """Return the header of a request to this queue."""
        return SendHeaderV2(
            producer_group=self.group,
            topic=self.topic,
            default_topic=AUTO_CREATE_TOPIC,
            default_topic_queue_nums=TOPIC_QUEUES_DEFAULT,
            queue_id=self.queue.queue_id,
            sys_flag=sys_flag,
            born_timestamp=born_ms,
            flag=flag,
            properties=properties,
            reconsume_times=0,
            unit_mode=False,
            batch=False,
            broker_name=self.queue.broker,
        )


NOWHERE: Target = Target(MessageQueue("", "", -1), "", "", "", lambda _send: None)
"""Of a send whose queue is still to be chosen."""


class TopicTargets:
    """The targets of one topic, in turn."""

    __slots__ = ("_at", "_by_queue", "_count", "queues", "refresh_at", "targets", "topic")

    def __init__(self, topic: str, targets: Sequence[Target], refresh_at: float | None = None) -> None:
        """`refresh_at`: loop time from which the route should be asked for again; None: only when it changes."""
        self.topic: str = topic
        self.targets: list[Target] = list(targets)
        self.queues: list[MessageQueue] = [target.queue for target in self.targets]
        self.refresh_at: float | None = refresh_at
        self._count = len(self.targets)
        self._by_queue = {target.queue[1:]: target for target in self.targets}
        self._at = random.randrange(self._count)  # noqa: S311 - spreads producers over queues

    def next(self) -> Target:
        """Return the next one in turn."""
        at = self._at = self._at + 1
        return self.targets[at % self._count]

    def next_avoiding(self, broker: str) -> Target:
        """Return the next one in turn on another broker, where there is another."""
        for _ in range(self._count):
            target = self.next()
            if target.queue.broker != broker:
                return target
        return self.next()

    def take_turn(self) -> int:
        """Return the index whose turn it is, for those who choose by more than turns."""
        self._at += 1
        return self._at % self._count

    def of(self, queue: MessageQueue) -> Target:
        """Return the target of a queue that was chosen; NoRoute when the topic has no such queue to be written."""
        if not isinstance(queue, MessageQueue):  # pyright: ignore[reportUnnecessaryIsInstance] - what users pass
            raise InvalidMessage("queue", f"a MessageQueue, not {queue!r}")
        if queue.topic != self.topic:
            raise InvalidMessage("queue", f"it belongs to topic {queue.topic}, the message to {self.topic}")
        found = self._by_queue.get(queue[1:])
        if found is None:
            raise NoRoute(
                f"topic {self.topic} has no queue {queue.queue_id} on broker {queue.broker} that can be written now"
            )
        return found
