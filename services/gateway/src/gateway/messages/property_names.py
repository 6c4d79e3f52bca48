"""Property names reserved for RocketMQ or the broker: refused from clients, shown separately."""

from gantry_wire.messages import properties as p

RESERVED_PREFIX = "__"
"""Prefix of the broker's own names."""

AS_FIELDS = frozenset({p.TAGS, p.KEYS, p.UNIQ_KEY, p.SHARDING_KEY, p.GANTRY_KEY})
"""HTTP shows these as tag, keys, messageId, shardingKey and idempotencyKey."""

HIDDEN = frozenset({p.GANTRY_SETTLED})
"""The broker's internal properties, never shown."""

RESERVED = frozenset(
    {
        p.KEYS, p.TAGS, p.WAIT, p.DELAY, p.RETRY_TOPIC, p.REAL_TOPIC, p.REAL_QUEUE_ID, p.TRANSACTION_PREPARED,
        p.PRODUCER_GROUP, p.MIN_OFFSET, p.MAX_OFFSET, p.BUYER_ID, p.ORIGIN_MESSAGE_ID, p.TRANSFER_FLAG,
        p.CORRECTION_FLAG, p.MQ2_FLAG, p.RECONSUME_TIME, p.MAX_RECONSUME_TIMES, p.MSG_REGION, p.TRACE_ON,
        p.UNIQ_KEY, p.EXTEND_UNIQ_INFO, p.CONSUME_START_TIME, p.DUP_INFO, p.INNER_NUM, p.INNER_BASE,
        p.INNER_MULTI_DISPATCH, p.INNER_MULTI_QUEUE_OFFSET, p.CHECK_IMMUNITY_TIME,
        p.TRANSACTION_PREPARED_QUEUE_OFFSET, p.TRANSACTION_CHECK_TIMES, p.INSTANCE_ID, p.CORRELATION_ID,
        p.REPLY_TO_CLIENT, p.TTL, p.ARRIVE_TIME, p.PUSH_REPLY_TIME, p.MSG_TYPE, p.CLUSTER, p.POP_CK,
        p.POP_CK_OFFSET, p.FIRST_POP_TIME, p.FORWARD_QUEUE_ID, p.REDIRECT, p.TRACE_CONTEXT, p.TIMER_DELAY_SEC,
        p.TIMER_DELAY_MS, p.TIMER_DELIVER_MS, p.TIMER_ENQUEUE_MS, p.TIMER_DEQUEUE_MS, p.TIMER_ROLL_TIMES,
        p.TIMER_OUT_MS, p.TIMER_DEL_UNIQKEY, p.TIMER_DELAY_LEVEL, p.BORN_TIMESTAMP, p.DLQ_ORIGIN_TOPIC,
        p.DLQ_ORIGIN_MESSAGE_ID, p.PRIORITY,
    }
)  # fmt: skip
"""Names that RocketMQ's clients refuse as user properties, and that its brokers write."""
