"""Where a send may go. Checks a topic when it is first seen, and keeps the result until the topic changes."""

from collections.abc import Callable
from ipaddress import ip_address

from broker_store.commit.message import Mode
from broker_store.commit.queues import Queue, QueueTable
from broker_store.commit.topics import FLUSH_ATTRIBUTE, PERM_WRITE, PROBE_TOPIC, TASKS_TOPIC, TopicTable
from gantry_wire.bodies.cluster import TopicConfig
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.headers.messages import SendHeader
from gantry_wire.names import HALF_TOPIC, SCHEDULE_TOPIC, SEND_FORBIDDEN_TOPICS, TIMER_TOPIC, check_topic

MEETING_TOPICS = frozenset({SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC})
"""System queues that hold messages of many topics.

All of them become visible after their flush, whatever their topics promise.
"""
_NEAR_ONLY = (PROBE_TOPIC, TASKS_TOPIC)
"""Topics that accept only marked sends of Gantry's own services. Checked at each send."""
FAQ = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."


class Target:
    """A topic that accepts sends, with everything the hot path needs."""

    __slots__ = ("mode", "queue_limit", "queues", "topic", "write_queues")

    def __init__(self, config: TopicConfig, mode: Mode) -> None:
        self.topic = config.topic_name
        self.write_queues = config.write_queue_nums
        self.queue_limit = max(config.read_queue_nums, config.write_queue_nums)
        self.queues: list[Queue | None] = [None] * self.queue_limit
        self.mode = mode


class Targets:
    """All known targets by topic."""

    def __init__(
        self,
        topics: TopicTable,
        queues: QueueTable,
        *,
        flush_sync: bool,
        broker_address: str,
        broker_permission: int,
        random_below: Callable[[int], int],
    ) -> None:
        self.known: dict[str, Target] = {}
        """The hot path looks here first: one dict lookup per message."""
        self._internal: dict[str, Target] = {}
        self._changed: set[str] = set()
        """Topics that changed while one of their entries waited for its flush: nothing may overtake it."""
        self.broker_permission = broker_permission
        self._topics = topics
        self._queues = queues
        self.mode = Mode.SYNC if flush_sync else Mode.ASYNC
        """Mode of topics that set none."""
        self._broker_address = broker_address
        self._random_below = random_below

    def set_broker_permission(self, permission: int) -> None:
        """Set the broker's permission, and check every topic again at its next send."""
        self.broker_permission = permission
        self.known.clear()

    def forget(self, topic: str) -> None:
        """Check a topic again at its next send: it was changed or deleted."""
        self.known.pop(topic, None)
        self._internal.pop(topic, None)
        if not self._is_settled(topic):
            self._changed.add(topic)

    def admit(self, header: SendHeader, remote: tuple[str, int]) -> Target:
        """Check a topic seen for the first time; create it if a send may. Raises RefusedRequest or IllegalName."""
        name = header.topic
        config = self._topics.find(name)
        if config is not None and config.order and not self.broker_permission & PERM_WRITE:
            raise RefusedRequest(
                ResponseCode.NO_PERMISSION, f"the broker[{self._broker_address}] sending message is forbidden"
            )
        check_topic(name)
        self._refuse_forbidden(header, remote)
        if config is None:
            config = self._topics.create_for_send(
                name, header.default_topic, header.default_topic_queue_nums, unit_mode=bool(header.unit_mode)
            )
        if config is None:
            raise RefusedRequest(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist, apply first please!{FAQ}"
            )
        target = self.of(config)
        if name not in self._changed and name not in _NEAR_ONLY:
            self.known[name] = target
        return target

    def of(self, config: TopicConfig) -> Target:
        """Return the target of a topic the broker itself chose. Needs no check."""
        return Target(config, self._mode(config))

    def internal(self, config: TopicConfig) -> Target:
        """Return the target of a topic for the store's own records. Admits no client's send."""
        target = self._internal.get(config.topic_name)
        if target is None:
            target = self.of(config)
            if config.topic_name not in self._changed:
                self._internal[config.topic_name] = target
        return target

    def any_queue(self, target: Target, queue_id: int) -> Queue:
        """Return the requested queue of a topic that has write queues.

        For an id outside the topic, whose queue count has changed, return one that is written and read.
        """
        if queue_id < 0:
            queue_id = self._random_below(target.write_queues)
        elif queue_id >= target.queue_limit:
            queue_id %= target.write_queues
        queue = target.queues[queue_id]
        if queue is None:
            queue = target.queues[queue_id] = self._queues.open(target.topic, queue_id)
        return queue

    def queue(self, target: Target, queue_id: int, remote: tuple[str, int]) -> Queue:
        """Return the queue of a send, a random one for a negative id.

        Refuses an id outside the topic with INVALID_PARAMETER.
        """
        if queue_id >= target.queue_limit:
            raise RefusedRequest(
                ResponseCode.INVALID_PARAMETER,
                f"request queueId[{queue_id}] is illegal, topic[{target.topic}] has {target.queue_limit} queues, "
                f"Producer: {remote[0]}:{remote[1]}",
            )
        if queue_id < 0:
            if target.write_queues <= 0:
                raise RefusedRequest(ResponseCode.SYSTEM_ERROR, f"topic[{target.topic}] has no write queues")
            queue_id = self._random_below(target.write_queues)
        queue = target.queues[queue_id]
        if queue is None:
            queue = target.queues[queue_id] = self._queues.open(target.topic, queue_id)
        return queue

    def _mode(self, config: TopicConfig) -> Mode:
        name = config.topic_name
        wanted = (config.attributes or {}).get(FLUSH_ATTRIBUTE)
        is_sync = self.mode == Mode.SYNC if wanted is None else wanted == "sync"
        is_sync = is_sync or name in MEETING_TOPICS
        if name in self._changed:
            # Checked only for changed topics: within a batch every queue has offsets that are not visible
            # yet, though none of them waits for a flush.
            if not is_sync and not self._is_settled(name):
                return Mode.SYNC
            self._changed.discard(name)
        return Mode.SYNC if is_sync else Mode.ASYNC

    def _is_settled(self, topic: str) -> bool:
        return all(queue.next_offset == queue.max_offset for queue in self._queues.of_topic(topic))

    def _refuse_forbidden(self, header: SendHeader, remote: tuple[str, int]) -> None:
        name = header.topic
        if name in _NEAR_ONLY and header.probe and _is_near(remote[0]):
            return
        if name in SEND_FORBIDDEN_TOPICS or self._topics.is_internal(name):
            raise RefusedRequest(
                ResponseCode.NO_PERMISSION, f"Sending message to topic[{name}] is forbidden."
            )


def _is_near(host: str) -> bool:
    """Whether an address is on this machine or in a private network, where gateways are."""
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_private
