"""What a consumer answers brokers, and through them tools.

Reset your offsets (220), where are you (221), how are you (307), consume this one message (309).
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
import traceback
from time import monotonic
from typing import Protocol

from gantry.consumer.calls import Call, Calling
from gantry.consumer.flow import MIB
from gantry.consumer.holding import Holding
from gantry.consumer.listeners import Way
from gantry.consumer.offsets import OffsetStore
from gantry.consumer.process_queue import ProcessQueue
from gantry.consumer.running import Running
from gantry.consumer.statistics import ConsumerStatistics, TopicStatistics
from gantry.message import MessageQueue, ReceivedMessage
from gantry.namespaces import wrap
from gantry.pushes import PushAnswer, PushReply
from gantry_wire import cluster_bodies
from gantry_wire.body import decode_body, encode_body
from gantry_wire.client_bodies import GetConsumerStatusBody, ResetOffsetBody
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.consumer_bodies import (
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
    ConsumeStatus,
    DirectResult,
    ProcessQueueInfo,
)
from gantry_wire.frame import Command
from gantry_wire.headers import (
    ConsumeDirectlyHeader,
    ConsumerRunningInfoHeader,
    ConsumerStatusHeader,
    ResetClientOffsetHeader,
)
from gantry_wire.record import decode_record

log: logging.Logger = logging.getLogger("gantry")


class AtWork(Protocol):
    """What push and lite consumers have in common when they run."""

    @property
    def group(self) -> str:
        """The group as the cluster knows it."""
        ...

    @property
    def holding(self) -> Holding:
        """Its queues in hand."""
        ...

    @property
    def offsets(self) -> OffsetStore:
        """How far it is."""
        ...

    @property
    def statistics(self) -> ConsumerStatistics:
        """What it did, by topic."""
        ...


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


async def reset_offsets(running: AtWork, command: Command) -> None:
    """220: begin queues in hand anew at the offsets the broker says."""
    header = command.read(ResetClientOffsetHeader)
    table = decode_body(command.body, ResetOffsetBody).offset_table
    reset = {
        MessageQueue(each.topic, each.broker_name, each.queue_id): offset
        for each, offset in table.items()
        if each.topic == header.topic
    }
    mine = {queue: offset for queue, offset in reset.items() if queue in running.holding.queues}
    log.warning("group %s: the offsets of %d queues of %s are reset", running.group, len(mine), header.topic)
    for queue, offset in mine.items():
        running.offsets.table.put(queue, offset)
        running.holding.begin(queue, offset)
    await running.offsets.write(mine, wait=True)


def status(running: AtWork, command: Command) -> GetConsumerStatusBody:
    """221: the offsets of a topic as they are known here."""
    topic = command.read(ConsumerStatusHeader).topic
    table = {
        _on_wire(queue): offset
        for queue, offset in running.offsets.table.snapshot().items()
        if queue.topic == topic
    }
    return GetConsumerStatusBody(message_queue_table=table)


def running_info(running: Running, started_ms: int, command: Command) -> ConsumerRunningInfo:
    """307: queues in hand, subscriptions, rates; with stacks if the tool wants them."""
    plan, now = running.plan, monotonic()
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
    """309: have the listener consume one message now; its offset stays as it is."""
    header = command.read(ConsumeDirectlyHeader)
    message = ReceivedMessage(
        decode_record(command.body), header.broker_name or "", namespace=running.namespace
    )
    plan = running.plan
    queue = MessageQueue(wrap(running.namespace, message.topic), message.broker, message.queue_id)
    call = Call(ProcessQueue(queue, message.queue_offset, monotonic()), [message])
    calling = Calling(plan.listener, plan.group, plan.hooks)
    started = monotonic()
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
        spent_time_mills=round((monotonic() - started) * 1000),
    )
    return PushReply(body=encode_body(body))


def queue_table(running: AtWork, now: float) -> dict[cluster_bodies.MessageQueue, ProcessQueueInfo]:
    """Return the state of every queue in hand."""
    return {_on_wire(queue): _info(running, held, now) for queue, held in running.holding.queues.items()}


def status_table(running: AtWork, now: float) -> dict[str, ConsumeStatus]:
    """Return the rates of every topic."""
    return {topic: _status(counts, now) for topic, counts in running.statistics.items()}


def _info(running: AtWork, held: ProcessQueue, now: float) -> ProcessQueueInfo:
    return ProcessQueueInfo(
        cached_msg_count=len(held),
        cached_msg_max_offset=held.max_offset if len(held) else 0,
        cached_msg_min_offset=held.min_offset,
        cached_msg_size_in_mi_b=held.bytes // MIB,
        commit_offset=running.offsets.table.get(held.queue) or 0,
        droped=held.dropped,
        last_consume_timestamp=_wall_ms(held.last_consumed, now),
        last_lock_timestamp=_wall_ms(held.last_locked, now) if held.is_locked else 0,
        last_pull_timestamp=_wall_ms(held.last_pulled, now),
        locked=held.is_locked,
    )


def _status(counts: TopicStatistics, now: float) -> ConsumeStatus:
    rates = counts.rates(now)
    return ConsumeStatus(
        consume_failed_msgs=rates.failed_in_hour,
        consume_failed_tps=rates.failed_per_second,
        consume_ok_tps=rates.consumed_per_second,
        consume_rt=rates.call_ms,
        pull_rt=rates.pull_ms,
        pull_tps=rates.pulled_per_second,
    )


def stacks() -> str:
    """Return where every thread and every task of the SDK stands."""
    lines: list[str] = []
    for number, frame in sys._current_frames().items():  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - the documented way
        lines += [f"thread {number}\n", *traceback.format_stack(frame), "\n"]
    for task in asyncio.all_tasks():
        frames = task.get_stack(limit=1)
        place = f"{frames[0].f_code.co_filename}:{frames[0].f_lineno}" if frames else "not begun"
        lines.append(f"task {task.get_name()} at {place}\n")
    return "".join(lines)


def _wall_ms(moment: float, now: float) -> int:
    return round((time.time() - (now - moment)) * 1000)


def _on_wire(queue: MessageQueue) -> cluster_bodies.MessageQueue:
    return cluster_bodies.MessageQueue(broker_name=queue.broker, queue_id=queue.queue_id, topic=queue.topic)
