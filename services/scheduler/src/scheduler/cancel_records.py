"""Carries out cancel records (TIMER_DEL_UNIQKEY): settles them with the message each names.

A record whose message is not there yet waits for it until its own time, as RocketMQ has it: cancelling may come first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from gantry_link.errors import BrokerRefused, LinkError
from gantry_wire.names import TIMER_TOPIC
from gantry_wire.settle_headers import SettleStatus
from scheduler.decisions import CANCELLED, cancel, deliver
from scheduler.entries import TIMER, Entry
from scheduler.figures import Figures
from scheduler.lane_names import lane_of
from scheduler.lanes import Lanes
from scheduler.settler import Settler

RETRY_SECONDS = 0.5
WAITING_MAX = 100_000


def target_of(record: Entry) -> tuple[str, bytes]:
    """Return topic and unique key that a cancel record names; the topic is empty where it names none (before 5.3.2)."""
    topic, plus, uniq = record.cancels.rpartition(b"+")
    return (topic.decode("utf-8", "replace"), uniq) if plus else ("", record.cancels)


class CancelRecords:
    """The cancel records of one store during one term."""

    def __init__(self, lanes: Lanes, settler: Settler, figures: Figures) -> None:
        self._lanes, self._settler, self._figures = lanes, settler, figures
        self._new: asyncio.Queue[Entry] = asyncio.Queue()
        self._waiting: dict[bytes, Entry] = {}

    def take(self, record: Entry) -> None:
        """Take a record that was read; it is carried out by `run`."""
        self._new.put_nowait(record)

    def noticed(self, entries: Iterable[Entry]) -> None:
        """Note messages of the timer queue: a record that came before may want one cancelled, and is then carried out."""
        for entry in entries if self._waiting else ():
            record = self._waiting.get(entry.uniq)
            if record is not None and target_of(record)[0] in ("", entry.topic):
                del self._waiting[entry.uniq]
                self._new.put_nowait(record)

    async def run(self) -> None:
        """Carry out records for ever, in order."""
        while True:
            record = await self._new.get()
            while not await self._carry_out(record):  # noqa: ASYNC110 - asks the store again
                await asyncio.sleep(RETRY_SECONDS)

    async def _carry_out(self, record: Entry) -> bool:
        topic, uniq = target_of(record)
        waits = len(self._waiting) < WAITING_MAX
        if waits:  # from now on: its message may be read while it is looked for
            self._waiting[uniq] = record
        found = [
            entry
            for entry in await self._lanes.find(uniq)
            if entry.source == TIMER and topic in ("", entry.topic)
        ]
        if waits and self._waiting.get(uniq) is not record:
            return True  # it was read, and the record is in the queue again
        if not found:
            self._lanes.arm(
                [record], lane_of(record)
            )  # when it is due it is settled with no result, like any other
            return True
        if waits:
            del self._waiting[uniq]
        try:
            items = [*(cancel(entry) for entry in found), deliver(record)]
            reply = await self._settler.settle((TIMER_TOPIC, 0), items)
        except (BrokerRefused, LinkError):
            return False
        self._lanes.forget([*found, record])
        settled = sum(result.status == SettleStatus.SETTLED for result in reply.results[:-1])
        self._figures.outcomes.labels(CANCELLED).value += settled
        return True
