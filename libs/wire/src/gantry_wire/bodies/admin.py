"""Bodies of admin requests to a broker: connections, statistics, consume progress, ConsumeQueue units."""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from gantry_wire.bodies.clients import ConsumeFromWhere, ConsumeType, MessageModel, SubscriptionData
from gantry_wire.bodies.cluster import MessageQueue
from gantry_wire.bodies.json_body import Body


class TopicOffset(Body, kw_only=True, rename="camel"):
    """Bounds of one queue; times in ms."""

    is_plain: ClassVar[bool] = True
    last_update_timestamp: int = 0
    max_offset: int = 0
    min_offset: int = 0


class TopicStatsTable(Body, kw_only=True, rename="camel"):
    """202."""

    offset_table: dict[MessageQueue, TopicOffset] = field(default_factory=dict[MessageQueue, TopicOffset])
    topic_put_tps: float = 0.0


class OffsetWrapper(Body, kw_only=True, rename="camel"):
    """A group's consume progress in one queue."""

    is_plain: ClassVar[bool] = True
    broker_offset: int = 0
    consumer_offset: int = 0
    last_timestamp: int = 0
    pull_offset: int = 0


class ConsumeStats(Body, kw_only=True, rename="camel"):
    """208."""

    consume_tps: float = 0.0
    offset_table: dict[MessageQueue, OffsetWrapper] = field(default_factory=dict[MessageQueue, OffsetWrapper])


class ConsumeStatsList(Body, kw_only=True, rename="camel"):
    """317."""

    broker_addr: str = ""
    consume_stats_list: list[dict[str, list[ConsumeStats]]] = field(
        default_factory=list[dict[str, list[ConsumeStats]]]
    )
    total_diff: int = 0
    total_inflight_diff: int = 0


class Connection(Body, kw_only=True, rename="camel"):
    """One client connected to a broker."""

    is_plain: ClassVar[bool] = True
    client_addr: str
    client_id: str
    language: str = "OTHER"
    version: int = 0


class ConsumerConnection(Body, kw_only=True, rename="camel"):
    """203."""

    is_plain: ClassVar[bool] = True
    connection_set: list[Connection] = field(default_factory=list[Connection])
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    consume_type: ConsumeType = ConsumeType.CONSUME_PASSIVELY
    message_model: MessageModel = MessageModel.CLUSTERING
    subscription_table: dict[str, SubscriptionData] = field(default_factory=dict[str, SubscriptionData])


class ProducerConnection(Body, kw_only=True, rename="camel"):
    """204."""

    is_plain: ClassVar[bool] = True
    connection_set: list[Connection] = field(default_factory=list[Connection])


class ProducerInfo(Body, kw_only=True, rename="camel"):
    """One producer connected to a broker."""

    is_plain: ClassVar[bool] = True
    client_id: str
    language: str = "OTHER"
    last_update_timestamp: int = 0
    remote_ip: str = field(name="remoteIP", default="")
    version: int = 0


class ProducerTableInfo(Body, kw_only=True, rename="camel"):
    """328: producers by group."""

    is_plain: ClassVar[bool] = True
    data: dict[str, list[ProducerInfo]] = field(default_factory=dict[str, list[ProducerInfo]])


class BrokerStatsItem(Body, kw_only=True, rename="camel"):
    """A counter over one period."""

    is_plain: ClassVar[bool] = True
    avgpt: float = 0.0
    sum: int = 0
    tps: float = 0.0


class BrokerStatsData(Body, kw_only=True, rename="camel"):
    """315."""

    is_plain: ClassVar[bool] = True
    stats_day: BrokerStatsItem = field(default_factory=BrokerStatsItem)
    stats_hour: BrokerStatsItem = field(default_factory=BrokerStatsItem)
    stats_minute: BrokerStatsItem = field(default_factory=BrokerStatsItem)


class QueueTimeSpan(Body, kw_only=True, rename="camel"):
    """Store times (ms) of a queue's first message, its last, and the group's next."""

    is_plain: ClassVar[bool] = True
    consume_time_stamp: int = 0
    delay_time: int = 0
    max_time_stamp: int = 0
    message_queue: MessageQueue
    min_time_stamp: int = 0


class QueryConsumeTimeSpanBody(Body, kw_only=True, rename="camel"):
    """303."""

    is_plain: ClassVar[bool] = True
    consume_time_span_set: list[QueueTimeSpan] = field(default_factory=list[QueueTimeSpan])


class ConsumeQueueData(Body, kw_only=True, rename="camel"):
    """One ConsumeQueue unit, and whether a group's filter matches it."""

    bit_map: str | None = None
    eval: bool = False
    msg: str | None = None
    physic_offset: int = 0
    physic_size: int = 0
    tags_code: int = 0


class QueryConsumeQueueResponseBody(Body, kw_only=True, rename="camel"):
    """321."""

    filter_data: str | None = None
    max_queue_index: int = 0
    min_queue_index: int = 0
    queue_data: list[ConsumeQueueData] = field(default_factory=list[ConsumeQueueData])
    subscription_data: SubscriptionData | None = None


class QuerySubscriptionResponseBody(Body, kw_only=True, rename="camel"):
    """345."""

    group: str
    subscription_data: SubscriptionData | None = None
    topic: str | None = None


class GroupForbidden(Body, kw_only=True, rename="camel"):
    """353: whether a group may read a topic."""

    group: str
    readable: bool = True
    topic: str


class HAClientRuntimeInfo(Body, kw_only=True, rename="camel"):
    """Replication state of a slave; all zero on a master."""

    last_read_timestamp: int = 0
    last_write_timestamp: int = 0
    master_addr: str | None = None
    master_flush_offset: int = 0
    max_offset: int = 0
    transferred_byte_in_second: int = 0


class HAConnectionInfo(Body, kw_only=True, rename="camel"):
    """One slave connected to a master; positions in bytes."""

    addr: str
    diff: int = 0
    in_sync: bool = False
    slave_ack_offset: int = 0
    transfer_from_where: int = 0
    transferred_byte_in_second: int = 0


class HARuntimeInfo(Body, kw_only=True, rename="camel"):
    """907: the slaves that replicate this broker's log, and their progress."""

    ha_client_runtime_info: HAClientRuntimeInfo = field(default_factory=HAClientRuntimeInfo)
    ha_connection_info: list[HAConnectionInfo] = field(default_factory=list[HAConnectionInfo])
    in_sync_slave_nums: int = 0
    is_master: bool = field(name="master", default=True)
    master_commit_log_max_offset: int = 0


class EpochEntry(Body, kw_only=True, rename="camel"):
    """The part of a log that the leader of one epoch wrote; positions in bytes."""

    end_offset: int
    epoch: int
    start_offset: int


class EpochEntryCache(Body, kw_only=True, rename="camel"):
    """1007: the epochs of a broker's log."""

    broker_id: int
    broker_name: str
    cluster_name: str
    epoch_list: list[EpochEntry]
    max_offset: int


class SetMessageRequestMode(Body, kw_only=True, rename="camel"):
    """401: sets how a group consumes a topic, `PULL` or `POP`."""

    consumer_group: str
    mode: str = "PULL"
    pop_share_queue_num: int = 0
    topic: str


class QueryCorrectionOffsetBody(Body, kw_only=True, rename="camel"):
    """308: offset by queue id."""

    correction_offsets: dict[int, int] = field(default_factory=dict[int, int])
