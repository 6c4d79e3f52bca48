"""Finds or creates what a receive needs: the group, its filter in a topic, its lease tables. Keeps committed offsets in step.

A group's order and start are attributes of its configuration. Its filter is logged when it changes.
"""

from functools import lru_cache

from broker_store.commit.queues import Queue, QueueTable
from broker_store.commit.topics import TopicTable
from broker_store.groups.first_offset import newest_start
from broker_store.groups.groups import GroupTable
from broker_store.groups.offsets import OffsetTable
from broker_store.leases.note_bodies import GroupFilter, LeaseNote, QueueNote
from broker_store.leases.queue_scan import Wanted, wanted_of
from broker_store.leases.subscriptions import QueueLeases, Subscription
from broker_store.ports import LogReader
from broker_store.reading.read_settings import PERM_READ, ReadSettings
from gantry_wire.bodies.cluster import SubscriptionGroupConfig, TopicConfig
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.names import GATEWAY_GROUP
from gantry_wire.private_requests.leases import FILTER_CONFLICT, LATEST, ReceiveHeader

ORDER_ATTRIBUTE = "gantry.receive.order"
START_ATTRIBUTE = "gantry.receive.start"
SHARDING_KEY_ORDER = "shardingKey"

_compiled = lru_cache(maxsize=1024)(wanted_of)


class Opener:
    """Opens subscriptions and queues."""

    def __init__(
        self,
        groups: GroupTable,
        topics: TopicTable,
        settings: ReadSettings,
        queues: QueueTable,
        offsets: OffsetTable,
        log: LogReader,
    ) -> None:
        self._groups = groups
        self._topics = topics
        self._settings = settings
        self._queues = queues
        self._offsets = offsets
        self._log = log

    def group(self, name: str) -> SubscriptionGroupConfig:
        """Return a group that may receive; create it if allowed. Raises RefusedRequest."""
        config = None if name == GATEWAY_GROUP else self._groups.find_or_create(name)
        if config is None:
            remark = f"subscription group [{name}] does not exist, and receiving may not create it"
            raise RefusedRequest(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        if not config.consume_enable:
            remark = f"subscription group no permission, {name}: it is paused; resume it to receive"
            raise RefusedRequest(ResponseCode.NO_PERMISSION, remark)
        return config

    def topic(self, name: str) -> TopicConfig:
        """Return a readable topic. Raises RefusedRequest."""
        config = self._topics.find(name)
        if config is None:
            raise RefusedRequest(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist, apply first please!"
            )
        may_read = config.perm & PERM_READ and self._settings.broker_permission & PERM_READ
        if not may_read or self._topics.is_internal(name):
            raise RefusedRequest(
                ResponseCode.NO_PERMISSION, f"the topic[{name}] pulling message is forbidden"
            )
        return config

    def filter_to_note(self, subscription: Subscription, header: ReceiveHeader) -> GroupFilter | None:
        """Return the filter of a receive if it is not in force yet. The log must have it before anything is delivered by it.

        Raises RefusedRequest for another filter than the group's.
        """
        if header.expression_type is None:
            return None
        asked = GroupFilter(header.expression_type, (header.expression or "*").strip() or "*")
        _compiled(asked, in_order=False, is_retry=False)
        known = subscription.coming or subscription.filter
        if asked != known and (subscription.queues or subscription.coming) and not header.change_filter:
            remark = (
                f"group {header.group} receives topic {header.topic} with the {known.kind} filter "
                f"{known.expression[:200]!r}: use the same, or changeFilter to replace it for all"
            )
            raise RefusedRequest(ResponseCode.ILLEGAL_OPERATION, remark, {"gantryCode": FILTER_CONFLICT})
        return asked if asked != subscription.filter or subscription.coming else None

    def wanted(
        self, subscription: Subscription, config: SubscriptionGroupConfig, *, is_retry: bool
    ) -> Wanted:
        """Return the group's compiled filter of a topic. With `is_retry`, of messages that came back to it."""
        return _compiled(
            subscription.filter, in_order=is_in_order(config) and not is_retry, is_retry=is_retry
        )

    def to_note(
        self,
        subscription: Subscription,
        config: SubscriptionGroupConfig,
        count: int,
        asked: GroupFilter | None,
        start: str | None,
    ) -> LeaseNote | None:
        """Return the note that must be durable before the group's first delivery: its new filter, or its start.

        `start` is that of the receive. The group's configured one precedes it.
        """
        configured = config.attributes.get(START_ATTRIBUTE)
        starts: list[QueueNote] = []
        if LATEST in (configured, start if configured is None else None):
            starts = self._starts(subscription, count, is_configured=configured is not None)
        if not starts and asked is None:
            return None
        return LeaseNote(subscription.group, subscription.topic, starts, asked or subscription.filter)

    def _starts(self, subscription: Subscription, count: int, *, is_configured: bool) -> list[QueueNote]:
        """Return where a group begins in the queues of a topic, once: what is sent afterwards it gets, also in a queue that is used later."""
        if subscription.queues:
            return []
        offsets, group, topic = self._offsets, subscription.group, subscription.topic
        return [
            QueueNote(queue_id, self._newest(topic, queue_id, is_configured=is_configured))
            for queue_id in range(count)
            if offsets.find(group, topic, queue_id) is None
        ]

    def _newest(self, topic: str, queue_id: int, *, is_configured: bool) -> int:
        """Return the start in one queue: behind its last message where the group is configured so, else where RocketMQ's clients begin."""
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            return 0
        return queue.max_offset if is_configured else newest_start(queue, self._log)

    def queue(
        self, subscription: Subscription, queue_id: int, *, in_order: bool
    ) -> tuple[Queue, QueueLeases] | None:
        """Return a queue and its leases; create them if missing. None for a queue that never held a message."""
        queue = self._queues.find(subscription.topic, queue_id)
        if queue is None:
            return None
        leases = subscription.queues.get(queue_id)
        if leases is None:
            committed = self._offsets.find(subscription.group, subscription.topic, queue_id)
            leases = QueueLeases(queue_id, queue.min_offset if committed is None else committed)
            subscription.queues[queue_id] = leases
        if leases.committed < 0:
            self._begin(subscription, queue, leases)
        else:
            self.keep_in_step(subscription, leases)
        if leases.table.in_order is not in_order:
            leases.table.look_again(in_order=in_order)
        return queue, leases

    def _begin(self, subscription: Subscription, queue: Queue, leases: QueueLeases) -> None:
        """Reconcile the log with the committed offset: the later of both holds, because both record resets."""
        table = leases.table
        committed = self._offsets.find(subscription.group, subscription.topic, leases.queue_id)
        low = max(queue.min_offset, -1 if committed is None else committed)
        table.unseen.end_at(queue.max_offset)
        if low > table.low:
            table.move_to(min(low, max(queue.max_offset, table.low)))
        leases.committed = table.low
        self._offsets.commit(subscription.group, subscription.topic, leases.queue_id, table.low)

    def keep_in_step(self, subscription: Subscription, leases: QueueLeases) -> None:
        """Follow an offset that another client committed, and commit the group's own progress."""
        offsets, table = self._offsets, leases.table
        known = offsets.find(subscription.group, subscription.topic, leases.queue_id)
        if known is not None and known != leases.committed:
            table.move_to(known)
            leases.committed = known
        low = table.low
        if low != leases.committed:
            offsets.commit(subscription.group, subscription.topic, leases.queue_id, low)
            leases.committed = low


def is_in_order(config: SubscriptionGroupConfig) -> bool:
    """Whether a group receives messages of one sharding key one after the other: by its attribute, or RocketMQ's `consumeMessageOrderly`."""
    return config.consume_message_orderly or config.attributes.get(ORDER_ATTRIBUTE) == SHARDING_KEY_ORDER


def attempts_max(config: SubscriptionGroupConfig | None) -> int:
    """Return how often a group receives a message before it becomes a dead letter: once, plus its retries (RocketMQ's send-back)."""
    return 1 + (16 if config is None or config.retry_max_times < 0 else config.retry_max_times)
