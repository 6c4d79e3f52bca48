"""Typed headers of messages and consumers: client requests, pushes to clients, and their replies.

One class per request or reply. Admin requests are in admin_headers, nameserver requests in nameserver_headers. Ignores the
fields that only RocketMQ's own proxies use (`ns`, `nsd`, `bname`, `oway`, `lo`).
"""

from __future__ import annotations

import msgspec

from gantry_wire.headers.typed_header import Header, Int32, Int64


class SendHeader(Header, kw_only=True, rename="camel", gc=False):
    """10 and 324, with full field names. SendHeaderV2 has the same fields with one-letter names."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    """If negative, the broker picks a writable queue."""
    sys_flag: Int32
    born_timestamp: Int64
    """Milliseconds since 1970."""
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool | None = None
    max_reconsume_times: Int32 | None = None
    batch: bool | None = None
    broker_name: str | None = msgspec.field(default=None, name="bname")
    per_item: bool | None = msgspec.field(default=None, name="gantryPerItem")
    """Ours: a send batch (320) requests one result per message in the reply body."""
    probe: bool | None = msgspec.field(default=None, name="gantryProbe")
    """Ours: allows the gateway's probe to GANTRY_SYS_PROBE and the scheduler's tasks to GANTRY_SYS_TASKS, from private addresses only."""


class SendHeaderV2(SendHeader, kw_only=True, gc=False):
    """310, 320 and 325: a SendHeader with RocketMQ's one-letter names."""

    producer_group: str = msgspec.field(name="a")
    topic: str = msgspec.field(name="b")
    default_topic: str = msgspec.field(name="c")
    default_topic_queue_nums: Int32 = msgspec.field(name="d")
    queue_id: Int32 = msgspec.field(name="e")
    sys_flag: Int32 = msgspec.field(name="f")
    born_timestamp: Int64 = msgspec.field(name="g")
    flag: Int32 = msgspec.field(name="h")
    properties: str | None = msgspec.field(default=None, name="i")
    reconsume_times: Int32 | None = msgspec.field(default=None, name="j")
    unit_mode: bool | None = msgspec.field(default=None, name="k")
    max_reconsume_times: Int32 | None = msgspec.field(default=None, name="l")
    batch: bool | None = msgspec.field(default=None, name="m")
    broker_name: str | None = msgspec.field(default=None, name="n")


class SendReplyHeader(Header, kw_only=True, rename="camel", gc=False):
    """Reply to every stored send (codes 0, 10, 11, 12)."""

    msg_id: str
    """Offset message id; for a batch, all ids in order, joined by commas."""
    queue_id: Int32
    queue_offset: Int64
    """For a batch, the offset of its first message."""
    transaction_id: str | None = None
    """UNIQ_KEY of the message."""
    batch_uniq_id: str | None = None
    msg_region: str | None = msgspec.field(default=None, name="MSG_REGION")
    trace_on: str | None = msgspec.field(default=None, name="TRACE_ON")
    durability: str | None = None
    """Ours: `fsync` or `written`, the durability of the message at the time of the reply."""
    duplicate: bool | None = None
    """Ours: true if the idempotency window already held the message. Ids and offsets are those of the first message."""
    deliver_ms: Int64 | None = None
    """Ours: due time of a delayed message (ms since 1970). Its queueId is the target queue. Absent if delivered at once."""
    recall_handle: str | None = None
    """Identifies a message with a delivery time, for recall (370)."""
    gantry_code: str | None = None
    """Ours: machine-readable reason for a refused send."""


class RecallHeader(Header, kw_only=True, rename="camel", gc=False):
    """370: recall a message before its delivery time."""

    topic: str
    recall_handle: str
    producer_group: str | None = None


class RecallReplyHeader(Header, kw_only=True, rename="camel", gc=False):
    """Reply of 370: the unique key of the recalled message."""

    msg_id: str


class PullHeader(Header, kw_only=True, rename="camel", gc=False):
    """11 and 361: read messages of one queue, starting at an offset."""

    consumer_group: str
    topic: str
    queue_id: Int32
    queue_offset: Int64
    max_msg_nums: Int32
    sys_flag: Int32
    """Bits: 1 commit offset is valid, 2 may be held, 4 subscription present, 8 class filter, 16 lite pull."""
    commit_offset: Int64 = 0
    suspend_timeout_millis: Int64 = 0
    subscription: str | None = None
    sub_version: Int64 = 0
    expression_type: str | None = None
    max_msg_bytes: Int32 | None = None
    wide: bool | None = msgspec.field(default=None, name="gantryWide")
    """Ours: allows more messages than RocketMQ's 32, up to `max_msg_nums`."""
    browse: bool | None = msgspec.field(default=None, name="gantryBrowse")
    """Ours: reads without a group. Neither needs nor creates one, commits no offset, ignores resets, and may read our own topics."""
    wait_id: Int64 | None = msgspec.field(default=None, name="gantryWaitId")
    """Ours: a number with which 9035 ends this pull while it is held."""


class EndPullHeader(Header, kw_only=True, rename="camel", gc=False):
    """9035, one-way: the client no longer waits for the pull that it sent with this number over the same connection."""

    wait_id: Int64


class PullReplyHeader(Header, kw_only=True, rename="camel", gc=False):
    """Reply to a pull, on codes 0, 19, 20 and 21."""

    suggest_which_broker_id: Int64
    next_begin_offset: Int64
    min_offset: Int64
    max_offset: Int64
    offset_delta: Int64 | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
    forbidden_type: Int32 | None = None


class QueryMessageHeader(Header, kw_only=True, rename="camel", gc=False):
    """12: messages by key, or by unique key, between two store times (ms)."""

    topic: str
    key: str
    max_num: Int32
    begin_timestamp: Int64
    end_timestamp: Int64
    unique_key_query: bool | None = msgspec.field(default=None, name="_UNIQUE_KEY_QUERY")


class QueryMessageReplyHeader(Header, kw_only=True, rename="camel", gc=False):
    """Reply of 12: the progress of the index at the time of the query."""

    index_last_update_timestamp: Int64
    index_last_update_phyoffset: Int64


class ViewMessageHeader(Header, kw_only=True, rename="camel", gc=False):
    """33: one message by its position in the log (called offset on the wire)."""

    offset: Int64
    topic: str | None = None


class QueryConsumerOffsetHeader(Header, kw_only=True, rename="camel", gc=False):
    """14: a group's committed offset in one queue."""

    consumer_group: str
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool | None = None


class UpdateConsumerOffsetHeader(Header, kw_only=True, rename="camel", gc=False):
    """15: commit a group's offset in one queue, mostly one-way."""

    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: Int64


class SearchOffsetHeader(Header, kw_only=True, rename="camel", gc=False):
    """29: offset of a queue by store time (ms)."""

    topic: str
    queue_id: Int32
    timestamp: Int64
    boundary_type: str | None = None
    """LOWER (default) or UPPER; lower case is accepted too."""


class QueueHeader(Header, kw_only=True, rename="camel", gc=False):
    """30, 31, 32: query one queue."""

    topic: str
    queue_id: Int32
    committed: bool | None = None


class OffsetReplyHeader(Header, kw_only=True, rename="camel", gc=False):
    """Reply of 14, 29, 30, 31."""

    offset: Int64


class TimestampReplyHeader(Header, kw_only=True, rename="camel", gc=False):
    """Reply of 32: store time in ms, -1 for none."""

    timestamp: Int64


class HeartbeatReplyHeader(Header, kw_only=True, rename="camel", gc=False):
    """Reply of 34 to clients that support heartbeats without subscriptions."""

    is_support_heart_beat_v2: bool | None = msgspec.field(default=None, name="IS_SUPPORT_HEART_BEAT_V2")
    is_sub_change: bool | None = msgspec.field(default=None, name="IS_SUB_CHANGE")


class UnregisterClientHeader(Header, kw_only=True, rename="camel", gc=False):
    """35: a client disconnects. An empty group means that the client has no group of that kind."""

    client_id: str = msgspec.field(name="clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class ConsumerSendBackHeader(Header, kw_only=True, rename="camel", gc=False):
    """36: a consumer requests redelivery of a message."""

    offset: Int64
    """Position in the log."""
    group: str
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool | None = None
    max_reconsume_times: Int32 | None = None
    reason: str | None = msgspec.field(default=None, name="gantryReason")
    """Ours: the error that made the consumer send it back. A dead letter stores it."""


class EndTransactionHeader(Header, kw_only=True, rename="camel", gc=False):
    """37: the producer's decision about a half message."""

    topic: str | None = None
    producer_group: str
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    commit_or_rollback: Int32
    """0 unknown, 8 commit, 12 roll back."""
    from_transaction_check: bool | None = None
    msg_id: str
    transaction_id: str | None = None


class ConsumerGroupHeader(Header, kw_only=True, rename="camel", gc=False):
    """38 (members of the group), 40 (pushed: the members changed), 203."""

    consumer_group: str


class CheckTransactionHeader(Header, kw_only=True, rename="camel", gc=False):
    """39, pushed: asks for the state of a half message's transaction."""

    topic: str | None = None
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None


class ResetClientOffsetHeader(Header, kw_only=True, rename="camel", gc=False):
    """220, pushed: continue from these offsets."""

    topic: str
    group: str
    timestamp: Int64
    is_force: bool
    queue_id: Int32 | None = None
    offset: Int64 | None = None


class ConsumerRunningInfoHeader(Header, kw_only=True, rename="camel", gc=False):
    """307, relayed to the client that it names."""

    consumer_group: str
    client_id: str
    jstack_enable: bool | None = None


class ConsumeDirectlyHeader(Header, kw_only=True, rename="camel", gc=False):
    """309, relayed: consume this one message now."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None


class PushReplyHeader(Header, kw_only=True, rename="camel", gc=False):
    """326, pushed: the reply to a client's request message, with the store's address and time."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool | None = None
    born_host: str
    """host:port"""
    store_host: str
    store_timestamp: Int64
