"""Bodies that describe the cluster: queues, topics, groups, brokers, routes and configuration tables."""

from __future__ import annotations

from typing import ClassVar

import msgspec
from msgspec import field

from gantry_wire.bodies.json_body import Body


class MessageQueue(msgspec.Struct, kw_only=True, rename="camel", frozen=True, order=True):
    """One queue of one topic on one broker. fastjson writes it as a map key."""

    is_plain: ClassVar[bool] = True
    broker_name: str
    queue_id: int
    topic: str


class DataVersion(Body, kw_only=True, rename="camel"):
    """Version of a table; compared for equality only."""

    is_plain: ClassVar[bool] = True
    counter: int = 0
    state_version: int = 0
    timestamp: int = 0

    def advance(self, now_ms: int) -> None:
        """Count one change of the table."""
        self.counter += 1
        self.timestamp = now_ms


class TopicConfig(Body, kw_only=True, rename="camel"):
    """One topic of a broker. Permission bits: 4 read, 2 write, 1 inherit."""

    is_plain: ClassVar[bool] = True
    attributes: dict[str, str] = field(default_factory=dict[str, str])
    order: bool = False
    perm: int = 6
    read_queue_nums: int = 16
    topic_filter_type: str = "SINGLE_TAG"
    topic_name: str
    topic_sys_flag: int = 0
    write_queue_nums: int = 16


class TopicConfigSerializeWrapper(Body, kw_only=True, rename="camel"):
    """21 and topics.json: all topics of a broker."""

    is_plain: ClassVar[bool] = True
    data_version: DataVersion = field(default_factory=DataVersion)
    topic_config_table: dict[str, TopicConfig] = field(default_factory=dict[str, TopicConfig])


class TopicConfigList(Body, kw_only=True, rename="camel"):
    """18: several topics at once."""

    is_plain: ClassVar[bool] = True
    topic_config_list: list[TopicConfig] = field(default_factory=list[TopicConfig])


class SubscriptionGroupConfig(Body, kw_only=True, rename="camel"):
    """200, 352 and subscriptionGroup.json: one consumer group of a broker."""

    is_plain: ClassVar[bool] = True
    attributes: dict[str, str] = field(default_factory=dict[str, str])
    broker_id: int = 0
    consume_broadcast_enable: bool = True
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_message_orderly: bool = False
    consume_timeout_minute: int = 15
    group_name: str
    group_sys_flag: int = 0
    notify_consumer_ids_changed_enable: bool = True
    retry_max_times: int = 16
    retry_queue_nums: int = 1
    which_broker_when_consume_slowly: int = 1


class SubscriptionGroupWrapper(Body, kw_only=True, rename="camel"):
    """201 and subscriptionGroup.json: all groups of a broker."""

    is_plain: ClassVar[bool] = True
    data_version: DataVersion = field(default_factory=DataVersion)
    forbidden_table: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    subscription_group_table: dict[str, SubscriptionGroupConfig] = field(
        default_factory=dict[str, SubscriptionGroupConfig]
    )


class SubscriptionGroupList(Body, kw_only=True, rename="camel"):
    """225: several groups at once."""

    is_plain: ClassVar[bool] = True
    group_config_list: list[SubscriptionGroupConfig] = field(default_factory=list[SubscriptionGroupConfig])


class ConsumerOffsetTable(Body, kw_only=True, rename="camel"):
    """43 and consumerOffset.json: `topic@group` → queue → next offset."""

    data_version: DataVersion = field(default_factory=DataVersion)
    offset_table: dict[str, dict[int, int]] = field(default_factory=dict[str, dict[int, int]])


class RegisterBrokerBody(Body, kw_only=True, rename="camel"):
    """103: the topics of a broker."""

    is_plain: ClassVar[bool] = True
    filter_server_list: list[str] = field(default_factory=list[str])
    topic_config_serialize_wrapper: TopicConfigSerializeWrapper = field(
        default_factory=TopicConfigSerializeWrapper
    )


class QueueData(Body, kw_only=True, rename="camel"):
    """A topic's queues on one broker name."""

    is_plain: ClassVar[bool] = True
    broker_name: str
    perm: int
    read_queue_nums: int
    topic_sys_flag: int = 0
    write_queue_nums: int


class BrokerData(Body, kw_only=True, rename="camel"):
    """Addresses of one broker name by broker id; 0 is the master."""

    broker_addrs: dict[int, str] = field(default_factory=dict[int, str])
    broker_name: str
    cluster: str = ""
    enable_acting_master: bool = False
    zone_name: str | None = None


class TopicRouteData(Body, kw_only=True, rename="camel"):
    """105 and 217: the queues of a topic and the addresses of their brokers."""

    broker_datas: list[BrokerData] = field(default_factory=list[BrokerData])
    filter_server_table: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    order_topic_conf: str | None = None
    queue_datas: list[QueueData] = field(default_factory=list[QueueData])


class ClusterInfo(Body, kw_only=True, rename="camel"):
    """106: brokers by name, broker names by cluster."""

    broker_addr_table: dict[str, BrokerData] = field(default_factory=dict[str, BrokerData])
    cluster_addr_table: dict[str, list[str]] = field(default_factory=dict[str, list[str]])


class BrokerMemberGroup(Body, kw_only=True, rename="camel"):
    """Members of one broker name."""

    broker_addrs: dict[int, str] = field(default_factory=dict[int, str])
    broker_name: str
    cluster: str


class BrokerMemberGroupBody(Body, kw_only=True, rename="camel"):
    """901."""

    broker_member_group: BrokerMemberGroup | None = None


class TopicList(Body, kw_only=True, rename="camel"):
    """206, 224, 304, 305, 311 to 313, 343."""

    broker_addr: str | None = None
    topic_list: list[str] = field(default_factory=list[str])


class GroupList(Body, kw_only=True, rename="camel"):
    """300."""

    is_plain: ClassVar[bool] = True
    group_list: list[str] = field(default_factory=list[str])


class KVTable(Body, kw_only=True, rename="camel"):
    """28, 103 (reply), 219: a map of text to text."""

    is_plain: ClassVar[bool] = True
    table: dict[str, str] = field(default_factory=dict[str, str])


class KvConfigFile(Body, kw_only=True, rename="camel"):
    """kvConfig.json of a nameserver: namespace → key → value."""

    is_plain: ClassVar[bool] = True
    config_table: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
