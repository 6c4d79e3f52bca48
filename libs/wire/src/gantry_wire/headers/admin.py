"""Typed headers of admin requests to a broker."""

from __future__ import annotations

from gantry_wire.headers.typed_header import Header, Int32, Int64


class CreateTopicHeader(Header, kw_only=True, rename="camel", gc=False):
    """17: create or change a topic."""

    topic: str
    default_topic: str | None = None
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str | None = None
    topic_sys_flag: Int32 | None = None
    order: bool = False
    attributes: str | None = None
    """Changes as `+key=value,-key`."""
    force: bool | None = None


class AllTopicConfigHeader(Header, kw_only=True, rename="camel", gc=False):
    """21: all topics, or a page of `max_topic_num` topics from `topic_seq` if they are newer than `data_version`."""

    topic_seq: Int32 | None = None
    data_version: str | None = None
    max_topic_num: Int32 | None = None


class AllTopicConfigReplyHeader(Header, kw_only=True, rename="camel", gc=False):
    """Reply of 21."""

    total_topic_num: Int32


class AllGroupConfigHeader(Header, kw_only=True, rename="camel", gc=False):
    """201: all subscription groups, or a page of them."""

    group_seq: Int32 | None = None
    data_version: str | None = None
    max_group_num: Int32 | None = None


class AllGroupConfigReplyHeader(Header, kw_only=True, rename="camel", gc=False):
    """Reply of 201."""

    total_group_num: Int32


class BrokerConfigReplyHeader(Header, kw_only=True, rename="camel", gc=False):
    """Reply of 26: DataVersion as JSON."""

    version: str


class GroupHeader(Header, kw_only=True, rename="camel", gc=False):
    """343, 352: one group by name."""

    group: str


class DeleteGroupHeader(Header, kw_only=True, rename="camel", gc=False):
    """207. RocketMQ 4.9 calls the second field removeOffset, 5.x cleanOffset; `wants_clean_offset` reads both."""

    group_name: str
    clean_offset: bool | None = None
    remove_offset: bool | None = None

    @property
    def wants_clean_offset(self) -> bool:
        """Whether to delete the group's offsets too."""
        return bool(self.clean_offset or self.remove_offset)


class ProducerGroupHeader(Header, kw_only=True, rename="camel", gc=False):
    """204."""

    producer_group: str


class ConsumeStatsHeader(Header, kw_only=True, rename="camel", gc=False):
    """208: a group's consume progress in all its topics or in one."""

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


class ResetOffsetHeader(Header, kw_only=True, rename="camel", gc=False):
    """222: set a group's offsets by store time (ms, -1 latest) or to `offset` in one queue."""

    topic: str
    group: str
    timestamp: Int64
    is_force: bool
    queue_id: Int32 = -1
    offset: Int64 | None = None
    dry_run: bool | None = None
    """Ours: return the offsets that would be set, and set none."""


class ConsumerStatusHeader(Header, kw_only=True, rename="camel", gc=False):
    """221, 223: the offsets held by the group's clients."""

    topic: str
    group: str
    client_addr: str | None = None


class GroupTopicHeader(Header, kw_only=True, rename="camel", gc=False):
    """345: one group, and optionally one of its topics."""

    group: str
    topic: str | None = None


class ConsumeTimeSpanHeader(Header, kw_only=True, rename="camel", gc=False):
    """303: the age of a group's next messages in a topic."""

    topic: str
    group: str


class GroupForbiddenHeader(Header, kw_only=True, rename="camel", gc=False):
    """353: sets whether a group may read a topic; with `readable` None it only queries."""

    group: str
    topic: str
    readable: bool | None = None


class CorrectionOffsetHeader(Header, kw_only=True, rename="camel", gc=False):
    """308."""

    filter_groups: str | None = None
    compare_group: str
    topic: str


class CloneGroupOffsetHeader(Header, kw_only=True, rename="camel", gc=False):
    """314."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool | None = None


class StatsHeader(Header, kw_only=True, rename="camel", gc=False):
    """315: one counter by name and key."""

    stats_name: str
    stats_key: str


class BrokerConsumeStatsHeader(Header, kw_only=True, rename="camel", gc=False):
    """317."""

    is_order: bool


class QueryConsumeQueueHeader(Header, kw_only=True, rename="camel", gc=False):
    """321: `count` units of a queue, starting at offset `index`."""

    topic: str | None = None
    queue_id: Int32 | None = None
    index: Int64 | None = None
    count: Int32 | None = None
    consumer_group: str | None = None


class ResumeHalfMessageHeader(Header, kw_only=True, rename="camel", gc=False):
    """323."""

    topic: str | None = None
    msg_id: str | None = None
