"""Answers of a push consumer to brokers, and through them to tools.

Resets of offsets (220), its offsets (221), its state (307), and consuming one message directly (309).
"""

from __future__ import annotations

import asyncio

from gantry_wire.bodies.consumers import ConsumeMessageDirectlyResult, ConsumerRunningInfo, DirectResult
from gantry_wire.bodies.json_body import encode_body
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.frames.command import Command
from gantry_wire.headers.messages import ConsumeDirectlyHeader, ConsumerRunningInfoHeader
from gantry_wire.records.message_record import decode_record
from gantrymq.connection.pushes import PushAnswer, PushReply
from gantrymq.consumer.push.calls import Call, Calling
from gantrymq.consumer.push.listeners import Way
from gantrymq.consumer.push.running import Running
from gantrymq.consumer.shared.answers import queue_table, reset_offsets, stacks, status, status_table
from gantrymq.consumer.shared.process_queue import ProcessQueue
from gantrymq.formats.namespaces import wrap
from gantrymq.message import MessageQueue, ReceivedMessage


def answer(running: Running, started_ms: int, command: Command) -> PushAnswer:
    """Answer a broker's request about this consumer."""
    match command.code:
        case RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
            return reset_offsets(running, command)
        case RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT:
            return PushReply(body=encode_body(status(running, command)))
        case RequestCode.GET_CONSUMER_RUNNING_INFO:
            return PushReply(body=encode_body(running_info(running, started_ms, command)))
        case RequestCode.CONSUME_MESSAGE_DIRECTLY:
            return consume_directly(running, command)
        case _:
            words = f"request type {command.code} not supported"
            return PushReply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=words)


def running_info(running: Running, started_ms: int, command: Command) -> ConsumerRunningInfo:
    """Answer 307: assigned queues, subscriptions, rates; with stacks if the tool asks for them."""
    plan, now = running.plan, running.steady()
    settings = plan.settings
    header = command.read(ConsumerRunningInfoHeader)
    return ConsumerRunningInfo(
        jstack=stacks() if header.jstack_enable else None,
        mq_table=queue_table(running, now),
        properties={
            "PROP_CLIENT_VERSION": "PYTHON",
            "PROP_CONSUMEORDERLY": str(settings.orderly).lower(),
            "PROP_CONSUMER_START_TIMESTAMP": str(started_ms),
            "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
            "PROP_NAMESERVER_ADDR": running.instance.settings.nameservers,
            "PROP_THREADPOOL_CORE_SIZE": str(settings.concurrency),
            "consumeMessageBatchMaxSize": str(settings.batch_size),
            "consumeFromWhere": settings.start.value,
            "messageModel": settings.model.value,
            "allocateMessageQueueStrategy": settings.strategy.name,
        },
        status_table=status_table(running, now),
        subscription_set=[each.data() for each in plan.subscriptions.values()],
    )


async def consume_directly(running: Running, command: Command) -> PushReply:
    """Answer 309: the listener consumes one message now; its offset does not change."""
    header = command.read(ConsumeDirectlyHeader)
    message = ReceivedMessage(
        decode_record(command.body), header.broker_name or "", namespace=running.namespace
    )
    plan = running.plan
    queue = MessageQueue(wrap(running.namespace, message.topic), message.broker, message.queue_id)
    started = running.steady()
    call = Call(ProcessQueue(queue, message.queue_offset, started), [message], started)
    calling = Calling(plan.listener, plan.group, running.steady, plan.hooks)
    if plan.listener.way is Way.THREAD:
        await asyncio.to_thread(calling.run, calling.prepare(call))
        calling.conclude(call)
        ended: Call | None = call
    else:
        ended = calling.start(call.queue, call.messages)
        if ended is not None:
            await calling.finish(ended)
    result, remark = DirectResult.CR_SUCCESS, None
    if ended is not None and ended.outcome is not None and ended.outcome.failure is not None:
        remark = ended.outcome.failure
        raised = ended.outcome.error is not None
        result = DirectResult.CR_THROW_EXCEPTION if raised else DirectResult.CR_LATER
    body = ConsumeMessageDirectlyResult(
        order=plan.settings.orderly,
        consume_result=result,
        remark=remark,
        spent_time_mills=round((running.steady() - started) * 1000),
    )
    return PushReply(body=encode_body(body))
