"""Answers of a LitePullConsumer to brokers, and through them to tools: as those of push consumers, except that it has no listener (309).

A reset (220) moves its queues. RocketMQ's own lite consumer ignores it, so that its next commit undoes the reset.
"""

from __future__ import annotations

from gantry_wire.bodies.clients import MessageModel
from gantry_wire.bodies.consumers import ConsumerRunningInfo
from gantry_wire.bodies.json_body import encode_body
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.frames.command import Command
from gantry_wire.headers.messages import ConsumerRunningInfoHeader
from gantrymq.connection.pushes import PushAnswer, PushReply
from gantrymq.consumer.lite.reading import LiteReading
from gantrymq.consumer.shared.answers import queue_table, reset_offsets, stacks, status, status_table


def answer(reading: LiteReading, started_ms: int, command: Command) -> PushAnswer:
    """Answer a broker's request about this consumer."""
    match command.code:
        case RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
            return reset_offsets(reading, command)
        case RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT:
            return PushReply(body=encode_body(status(reading, command)))
        case RequestCode.GET_CONSUMER_RUNNING_INFO:
            return PushReply(body=encode_body(running_info(reading, started_ms, command)))
        case RequestCode.CONSUME_MESSAGE_DIRECTLY:
            # The text of RocketMQ's client, which tools show.
            words = f"The Consumer Group <{reading.group}> not exist in this consumer"
            return PushReply(ResponseCode.SYSTEM_ERROR, remark=words)
        case _:
            words = f"request type {command.code} not supported"
            return PushReply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=words)


def running_info(reading: LiteReading, started_ms: int, command: Command) -> ConsumerRunningInfo:
    """Answer 307: assigned queues, subscriptions, rates; with stacks if the tool asks for them."""
    settings, now = reading.settings, reading.steady()
    header = command.read(ConsumerRunningInfoHeader)
    return ConsumerRunningInfo(
        jstack=stacks() if header.jstack_enable else None,
        mq_table=queue_table(reading, now),
        properties={
            "PROP_CLIENT_VERSION": "PYTHON",
            "PROP_CONSUMEORDERLY": "false",
            "PROP_CONSUMER_START_TIMESTAMP": str(started_ms),
            "PROP_CONSUME_TYPE": "CONSUME_ACTIVELY",
            "PROP_NAMESERVER_ADDR": reading.instance.settings.nameservers,
            "autoCommit": str(settings.auto_commit).lower(),
            "consumeFromWhere": settings.start.value,
            "messageModel": MessageModel.CLUSTERING.value,
            "allocateMessageQueueStrategy": settings.strategy.name,
        },
        status_table=status_table(reading, now),
        subscription_set=[each.data() for each in reading.subscriptions.values()],
    )
