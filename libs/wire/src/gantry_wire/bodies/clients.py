"""Bodies that clients send about themselves and bodies that brokers push to them."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from msgspec import field

from gantry_wire.bodies.cluster import MessageQueue
from gantry_wire.bodies.json_body import Body


class ConsumeType(StrEnum):
    """How a group gets its messages, in the order of RocketMQ's ordinals, which old clients send."""

    CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
    CONSUME_PASSIVELY = "CONSUME_PASSIVELY"
    CONSUME_POP = "CONSUME_POP"


class MessageModel(StrEnum):
    """Whether the members of a group share its messages or each gets all of them."""

    BROADCASTING = "BROADCASTING"
    CLUSTERING = "CLUSTERING"


class ConsumeFromWhere(StrEnum):
    """Where a group without committed offsets starts."""

    CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST = (
        "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
    )
    CONSUME_FROM_MIN_OFFSET = "CONSUME_FROM_MIN_OFFSET"
    CONSUME_FROM_MAX_OFFSET = "CONSUME_FROM_MAX_OFFSET"
    CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


class SubscriptionData(Body, kw_only=True, rename="camel"):
    """A group's subscription to one topic. C++ clients send a wrong `code_set`: compute it from `sub_string`."""

    is_plain: ClassVar[bool] = True
    class_filter_mode: bool = False
    code_set: list[int] = field(default_factory=list[int])
    expression_type: str = "TAG"
    sub_string: str = "*"
    sub_version: int = 0
    tags_set: list[str] = field(default_factory=list[str])
    topic: str


class ConsumerData(Body, kw_only=True, rename="camel"):
    """One consumer group of a client."""

    is_plain: ClassVar[bool] = True
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    consume_type: ConsumeType = ConsumeType.CONSUME_PASSIVELY
    group_name: str
    message_model: MessageModel = MessageModel.CLUSTERING
    subscription_data_set: list[SubscriptionData] = field(default_factory=list[SubscriptionData])
    unit_mode: bool = False


class ProducerData(Body, kw_only=True, rename="camel"):
    """One producer group of a client."""

    is_plain: ClassVar[bool] = True
    group_name: str


class HeartbeatData(Body, kw_only=True, rename="camel"):
    """34: a client's id, its producer groups and its subscriptions."""

    is_plain: ClassVar[bool] = True
    client_id: str = field(name="clientID")
    consumer_data_set: list[ConsumerData] = field(default_factory=list[ConsumerData])
    heartbeat_fingerprint: int = 0
    producer_data_set: list[ProducerData] = field(default_factory=list[ProducerData])
    without_sub: bool = False


class CheckClientRequestBody(Body, kw_only=True, rename="camel"):
    """46: asks whether the broker can filter by this subscription."""

    client_id: str | None = None
    group: str | None = None
    namespace: str | None = None
    subscription_data: SubscriptionData


class ConsumerIdList(Body, kw_only=True, rename="camel"):
    """38: client ids of a group."""

    is_plain: ClassVar[bool] = True
    consumer_id_list: list[str] = field(default_factory=list[str])


class LockBatchRequestBody(Body, kw_only=True, rename="camel"):
    """41 and 42: queues a client locks or unlocks."""

    is_plain: ClassVar[bool] = True
    client_id: str
    consumer_group: str
    mq_set: list[MessageQueue] = field(default_factory=list[MessageQueue])
    only_this_broker: bool = False


class LockBatchResponseBody(Body, kw_only=True, rename="camel"):
    """41: the queues that are now locked."""

    is_plain: ClassVar[bool] = True
    lock_ok_mq_set: list[MessageQueue] = field(name="lockOKMQSet", default_factory=list[MessageQueue])


class ResetOffsetBody(Body, kw_only=True, rename="camel"):
    """220 and 222: next offset by queue."""

    offset_table: dict[MessageQueue, int] = field(default_factory=dict[MessageQueue, int])
    given_again: int | None = None
    """Ours, in replies: messages above the committed offset that were done or leased and are delivered again."""


class QueueOffset(Body, kw_only=True, rename="camel"):
    """A queue and its offset."""

    is_plain: ClassVar[bool] = True
    broker_name: str
    offset: int
    queue_id: int
    topic: str


class ResetOffsetListBody(Body, kw_only=True, rename="camel"):
    """220 for C++ clients, which cannot read objects as keys."""

    is_plain: ClassVar[bool] = True
    offset_table: list[QueueOffset] = field(default_factory=list[QueueOffset])


class GetConsumerStatusBody(Body, kw_only=True, rename="camel"):
    """221 and 223: the offsets held by the clients of a group."""

    consumer_table: dict[str, dict[MessageQueue, int]] = field(
        default_factory=dict[str, dict[MessageQueue, int]]
    )
    message_queue_table: dict[MessageQueue, int] = field(default_factory=dict[MessageQueue, int])
