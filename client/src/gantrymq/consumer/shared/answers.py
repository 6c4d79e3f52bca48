"""Common answers of push and lite consumers to brokers, and through them to tools: resets (220), offsets (221), and state (307)."""

from __future__ import annotations

import asyncio
import logging
import sys
import traceback
from typing import Protocol

from gantry_wire.bodies import cluster as cluster_bodies
from gantry_wire.bodies.clients import GetConsumerStatusBody, ResetOffsetBody
from gantry_wire.bodies.consumers import ConsumeStatus, ProcessQueueInfo
from gantry_wire.bodies.json_body import decode_body
from gantry_wire.frames.command import Command
from gantry_wire.headers.admin import ConsumerStatusHeader
from gantry_wire.headers.messages import ResetClientOffsetHeader
from gantrymq.consumer.shared.assigned_queues import AssignedQueues
from gantrymq.consumer.shared.flow import MIB
from gantrymq.consumer.shared.offsets import OffsetStore
from gantrymq.consumer.shared.process_queue import ProcessQueue
from gantrymq.consumer.shared.statistics import ConsumerStatistics, TopicStatistics
from gantrymq.machine import Machine, wall_ms
from gantrymq.message import MessageQueue

log: logging.Logger = logging.getLogger("gantrymq")


class RunningConsumer(Protocol):
    """The common interface of running push and lite consumers."""

    @property
    def group(self) -> str:
        """The group's name in the cluster."""
        ...

    @property
    def machine(self) -> Machine:
        """Its clocks."""
        ...

    @property
    def assigned(self) -> AssignedQueues:
        """Its assigned queues."""
        ...

    @property
    def offsets(self) -> OffsetStore:
        """Its offsets."""
        ...

    @property
    def statistics(self) -> ConsumerStatistics:
        """Its statistics by topic."""
        ...


async def reset_offsets(running: RunningConsumer, command: Command) -> None:
    """Handle 220: restart assigned queues at the offsets from the broker."""
    header = command.read(ResetClientOffsetHeader)
    table = decode_body(command.body, ResetOffsetBody).offset_table
    reset = {
        MessageQueue(each.topic, each.broker_name, each.queue_id): offset
        for each, offset in table.items()
        if each.topic == header.topic
    }
    mine = {queue: offset for queue, offset in reset.items() if queue in running.assigned.queues}
    log.warning("group %s: the offsets of %d queues of %s are reset", running.group, len(mine), header.topic)
    for queue, offset in mine.items():
        running.offsets.table.put(queue, offset)
        running.assigned.begin(queue, offset)
    await running.offsets.write(mine, wait=True)


def status(running: RunningConsumer, command: Command) -> GetConsumerStatusBody:
    """Answer 221: the offsets of a topic as known here."""
    topic = command.read(ConsumerStatusHeader).topic
    table = {
        _on_wire(queue): offset
        for queue, offset in running.offsets.table.snapshot().items()
        if queue.topic == topic
    }
    return GetConsumerStatusBody(message_queue_table=table)


def queue_table(running: RunningConsumer, now: float) -> dict[cluster_bodies.MessageQueue, ProcessQueueInfo]:
    """Return the state of every assigned queue."""
    return {_on_wire(queue): _info(running, held, now) for queue, held in running.assigned.queues.items()}


def status_table(running: RunningConsumer, now: float) -> dict[str, ConsumeStatus]:
    """Return the rates of every topic."""
    return {topic: _status(counts, now) for topic, counts in running.statistics.items()}


def stacks() -> str:
    """Return the stacks of all threads and of all tasks of the SDK."""
    lines: list[str] = []
    for number, frame in sys._current_frames().items():  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - the documented way
        lines += [f"thread {number}\n", *traceback.format_stack(frame), "\n"]
    for task in asyncio.all_tasks():
        frames = task.get_stack(limit=1)
        place = f"{frames[0].f_code.co_filename}:{frames[0].f_lineno}" if frames else "not started"
        lines.append(f"task {task.get_name()} at {place}\n")
    return "".join(lines)


def _info(running: RunningConsumer, held: ProcessQueue, now: float) -> ProcessQueueInfo:
    wall_now_ms = wall_ms(running.machine)
    return ProcessQueueInfo(
        cached_msg_count=len(held),
        cached_msg_max_offset=held.max_offset if len(held) else 0,
        cached_msg_min_offset=held.min_offset,
        cached_msg_size_in_mi_b=held.bytes // MIB,
        commit_offset=running.offsets.table.get(held.queue) or 0,
        droped=held.dropped,
        last_consume_timestamp=_wall_ms(held.last_consumed, now, wall_now_ms),
        last_lock_timestamp=_wall_ms(held.last_locked, now, wall_now_ms) if held.is_locked else 0,
        last_pull_timestamp=_wall_ms(held.last_pulled, now, wall_now_ms),
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


def _wall_ms(moment: float, now: float, wall_now_ms: int) -> int:
    return wall_now_ms - round((now - moment) * 1000)


def _on_wire(queue: MessageQueue) -> cluster_bodies.MessageQueue:
    return cluster_bodies.MessageQueue(broker_name=queue.broker, queue_id=queue.queue_id, topic=queue.topic)
