"""Bodies in which a consumer reports its state (307) and the result of consuming one message (309)."""

from __future__ import annotations

from enum import StrEnum

from msgspec import field

from gantry_wire.bodies.clients import SubscriptionData
from gantry_wire.bodies.cluster import MessageQueue
from gantry_wire.bodies.json_body import Body


class ProcessQueueInfo(Body, kw_only=True, rename="camel"):
    """One queue assigned to a consumer. Times in ms since 1970."""

    cached_msg_count: int = 0
    cached_msg_max_offset: int = 0
    cached_msg_min_offset: int = 0
    cached_msg_size_in_mi_b: int = field(default=0, name="cachedMsgSizeInMiB")
    commit_offset: int = 0
    droped: bool = False
    last_consume_timestamp: int = 0
    last_lock_timestamp: int = 0
    last_pull_timestamp: int = 0
    locked: bool = False
    transaction_msg_count: int = 0
    transaction_msg_max_offset: int = 0
    transaction_msg_min_offset: int = 0
    try_unlock_times: int = 0


class ConsumeStatus(Body, kw_only=True, rename="camel"):
    """A consumer's statistics for one topic: times in ms, rates per second over the last minute, failures of the last hour."""

    consume_failed_msgs: int = 0
    consume_failed_tps: float = field(default=0.0, name="consumeFailedTPS")
    consume_ok_tps: float = field(default=0.0, name="consumeOKTPS")
    consume_rt: float = field(default=0.0, name="consumeRT")
    pull_rt: float = field(default=0.0, name="pullRT")
    pull_tps: float = field(default=0.0, name="pullTPS")


class ConsumerRunningInfo(Body, kw_only=True, rename="camel"):
    """307: the state of a consumer."""

    jstack: str | None = None
    mq_pop_table: dict[MessageQueue, int] = field(default_factory=dict[MessageQueue, int])
    mq_table: dict[MessageQueue, ProcessQueueInfo] = field(
        default_factory=dict[MessageQueue, ProcessQueueInfo]
    )
    properties: dict[str, str] = field(default_factory=dict[str, str])
    status_table: dict[str, ConsumeStatus] = field(default_factory=dict[str, ConsumeStatus])
    subscription_set: list[SubscriptionData] = field(default_factory=list[SubscriptionData])
    user_consumer_info: dict[str, str] = field(default_factory=dict[str, str])


class DirectResult(StrEnum):
    """Result of a message consumed on request (CMResult), in the order of RocketMQ's ordinals."""

    CR_SUCCESS = "CR_SUCCESS"
    CR_LATER = "CR_LATER"
    CR_ROLLBACK = "CR_ROLLBACK"
    CR_COMMIT = "CR_COMMIT"
    CR_THROW_EXCEPTION = "CR_THROW_EXCEPTION"
    CR_RETURN_NULL = "CR_RETURN_NULL"


class ConsumeMessageDirectlyResult(Body, kw_only=True, rename="camel"):
    """309: the result of one message that a tool asked the client to consume."""

    auto_commit: bool = True
    consume_result: DirectResult = DirectResult.CR_SUCCESS
    order: bool = False
    remark: str | None = None
    spent_time_mills: int = 0
