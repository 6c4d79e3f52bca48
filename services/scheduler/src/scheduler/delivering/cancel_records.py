"""Carries out cancel records (TIMER_DEL_UNIQKEY): settles each with the message it names.

A record may arrive before its message. It then waits for the message until its own due time, as in RocketMQ.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from gantry_link.errors import BrokerRefused, LinkError
from gantry_wire.names import TIMER_TOPIC
from gantry_wire.private_requests.settling import SettleStatus
from scheduler.delivering.decisions import CANCELLED, cancel, deliver
from scheduler.delivering.settler import Settler
from scheduler.index.due_queue_names import due_queue_of
from scheduler.index.due_queues import DueQueues
from scheduler.index.entries import TIMER, Entry
from scheduler.metrics import SchedulerMetrics

RETRY_SECONDS = 0.5
WAITING_MAX = 100_000


def target_of(record: Entry) -> tuple[str, bytes]:
    """Return the topic and unique key a cancel record names. The topic is empty in records from before 5.3.2."""
    topic, plus, uniq = record.cancels.rpartition(b"+")
    return (topic.decode("utf-8", "replace"), uniq) if plus else ("", record.cancels)


class CancelRecords:
    """The cancel records of one store during one term."""

    def __init__(self, due_queues: DueQueues, settler: Settler, metrics: SchedulerMetrics) -> None:
        self._due_queues, self._settler, self._metrics = due_queues, settler, metrics
        self._new: asyncio.Queue[Entry] = asyncio.Queue()
        self._waiting: dict[bytes, Entry] = {}

    def take(self, record: Entry) -> None:
        """Take a record read from the log; `run` carries it out."""
        self._new.put_nowait(record)

    def noticed(self, entries: Iterable[Entry]) -> None:
        """Check messages of the timer queue against waiting records, and carry out those that match."""
        for entry in entries if self._waiting else ():
            record = self._waiting.get(entry.uniq)
            if record is not None and target_of(record)[0] in ("", entry.topic):
                del self._waiting[entry.uniq]
                self._new.put_nowait(record)

    async def run(self) -> None:
        """Carry out records in order, until cancelled."""
        while True:
            record = await self._new.get()
            while not await self._carry_out(record):  # noqa: ASYNC110 - asks the store again
                await asyncio.sleep(RETRY_SECONDS)

    async def _carry_out(self, record: Entry) -> bool:
        topic, uniq = target_of(record)
        waits = len(self._waiting) < WAITING_MAX
        if waits:  # registered before the lookup: its message may be read meanwhile
            self._waiting[uniq] = record
        found = [
            entry
            for entry in await self._due_queues.find(uniq)
            if entry.source == TIMER and topic in ("", entry.topic)
        ]
        if waits and self._waiting.get(uniq) is not record:
            return True  # its message was read and queued the record again
        if not found:
            self._due_queues.arm(
                [record], due_queue_of(record)
            )  # when due it is settled without a result, like any other
            return True
        if waits:
            del self._waiting[uniq]
        try:
            items = [*(cancel(entry) for entry in found), deliver(record)]
            reply = await self._settler.settle((TIMER_TOPIC, 0), items)
        except (BrokerRefused, LinkError):
            return False
        self._due_queues.forget([*found, record])
        settled = sum(result.status == SettleStatus.SETTLED for result in reply.results[:-1])
        self._metrics.outcomes.labels(CANCELLED).value += settled
        return True
