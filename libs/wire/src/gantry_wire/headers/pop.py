"""Headers of POP (200050 … 200055, 200151): consumption by leases, as RocketMQ 5's remoting clients speak it. Layout only."""

from __future__ import annotations

from gantry_wire.headers.typed_header import Header, Int32, Int64

POP_MESSAGES_MAX = 32
"""Most messages per POP."""


class PeekHeader(Header, kw_only=True, rename="camel", gc=False):
    """200052: messages that a pop would get now."""

    consumer_group: str
    topic: str
    queue_id: Int32
    """-1: all queues."""
    max_msg_nums: Int32


class PopHeader(PeekHeader, kw_only=True, rename="camel", gc=False):
    """200050. Times in ms."""

    invisible_time: Int64 = 60_000
    poll_time: Int64 = 0
    """How long the request is held while there is no message."""
    init_mode: Int32 = 0
    """Where a new group begins. 0: at the first message, 1: at the newest."""
    exp_type: str | None = None
    exp: str | None = None
    order: bool = False
    attempt_id: str | None = None


class PopReplyHeader(Header, kw_only=True, rename="camel", gc=False):
    """Reply of 200050 and 200052. The Java client wants the numbers in every reply, also in a refusal."""

    pop_time: Int64 = 0
    invisible_time: Int64 = 0
    revive_qid: Int32 = 0
    rest_num: Int64 = 0
    start_offset_info: str | None = None
    """`flag queueId startOffset`, joined by `;`. Flag 0: the topic's queue, 1: the retry topic's."""
    msg_offset_info: str | None = None
    """`flag queueId offset,offset,…`, joined by `;`."""


class PopAckHeader(Header, kw_only=True, rename="camel", gc=False):
    """200051: one message of a pop."""

    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str
    offset: Int64


class ChangeInvisibleHeader(PopAckHeader, kw_only=True, rename="camel", gc=False):
    """200053: another end of its lease."""

    invisible_time: Int64
    """ms from now."""


class ChangedInvisibleHeader(Header, kw_only=True, rename="camel", gc=False):
    """Reply of 200053. The client makes the new `extraInfo` from it."""

    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32


class PollingInfoHeader(Header, kw_only=True, rename="camel", gc=False):
    """200055: how many requests are held."""

    consumer_group: str
    topic: str
    queue_id: Int32 = -1


class NotificationHeader(PollingInfoHeader, kw_only=True, rename="camel", gc=False):
    """200054: wait until a pop may find something."""

    poll_time: Int64 = 0
    """ms."""


class NotificationReplyHeader(Header, kw_only=True, rename="camel", gc=False):
    """Reply of 200054."""

    has_msg: bool
    polling_full: bool


class PollingInfoReplyHeader(Header, kw_only=True, rename="camel", gc=False):
    """Reply of 200055."""

    polling_num: Int32
