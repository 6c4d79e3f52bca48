"""Rates of sends and pulls as the median of three slices, with the store's CPU time. Parts of the programs of this folder."""

from __future__ import annotations

import asyncio
import itertools
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Mapping

from gantry_link.connections.connection import connect
from gantry_wire.codes import RequestCode
from gantry_wire.headers.messages import PullHeader, PullReplyHeader
from measuring.system import System, cpu_seconds

Queue = tuple[str, int]
Bounds = tuple[int, int]
WHOLE: Mapping[Queue, Bounds] = {}
BODY = bytes(128)
SLICES = 3


async def create(system: System, topics: dict[str, int]) -> None:
    admin = await connect(system.store)  # an idle connection is closed
    for topic, queues in topics.items():
        fields = {
            "topic": topic, "defaultTopic": "TBW102", "readQueueNums": str(queues), "writeQueueNums": str(queues), "perm": "6",
            "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
        }  # fmt: skip
        answer = await admin.request(RequestCode.UPDATE_AND_CREATE_TOPIC, fields, timeout=60)
        assert answer.code == 0, answer.remark
    admin.close()


def pull_header(topic: str, queue_id: int, offset: int, hold_ms: int) -> PullHeader:
    """Return the header of a pull that is held this long if there is nothing."""
    return PullHeader(
        consumer_group="growth", topic=topic, queue_id=queue_id, queue_offset=offset, max_msg_nums=32,
        sys_flag=4 | (2 if hold_ms else 0), commit_offset=0, suspend_timeout_millis=hold_ms, subscription="*", sub_version=0,
    )  # fmt: skip


async def pull_rate(
    store: str, queues: list[Queue], seconds: float, window: int = 8, bounds: Mapping[Queue, Bounds] = WHOLE
) -> float:
    """Return messages pulled per second from these queues, repeatedly, at most 32 from one queue before the next.

    `bounds`: the first offset and the one after the last, to read only part of a queue.
    """
    connection = await connect(store)
    until, count, turns = time.monotonic() + seconds, 0, itertools.cycle(queues)
    offsets: dict[Queue, int] = {}

    async def puller() -> None:
        nonlocal count
        while time.monotonic() < until:
            queue = next(turns)
            first, end = bounds.get(queue, (0, sys.maxsize))
            offset = offsets.get(queue, first)
            answer = await connection.request(
                RequestCode.PULL_MESSAGE, pull_header(*queue, offset, 0), timeout=60
            )
            reply = answer.read(PullReplyHeader)
            count += reply.next_begin_offset - offset if answer.code == 0 else 0
            after = reply.next_begin_offset
            offsets[queue] = after if after < min(reply.max_offset, end) else first

    await asyncio.gather(*(puller() for _ in range(window)))
    connection.close()
    return count / seconds


class Rates:
    """Repeats a measurement in slices; returns the median, with the store's CPU time per message."""

    def __init__(self, system: System, seconds: float) -> None:
        self._pid, self._seconds = system.store_pid, seconds / SLICES

    async def of(self, measured: Callable[[float], Awaitable[float]]) -> tuple[float, float]:
        before = cpu_seconds(self._pid)
        rates = [await measured(self._seconds) for _ in range(SLICES)]
        messages = sum(rates) * self._seconds
        return statistics.median(rates), (cpu_seconds(self._pid) - before) * 1e6 / max(messages, 1)
