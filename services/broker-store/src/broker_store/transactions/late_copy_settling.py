"""Settles copies of halves whose transaction is decided, so that they are not checked and keep no segment from being deleted.

Such a copy arrives late from a client that repeats its send, or exists when another copy is decided. It can
no longer be decided. The decision is in the log before the copies are settled, so after a crash the next
start continues.
"""

import asyncio
from collections.abc import Sequence

from broker_store.commit.queues import QueueTable
from broker_store.settling.request.outcomes import SUPERSEDED
from broker_store.transactions.decisions_by_key import Settle
from broker_store.transactions.half_copies import Copy, HalfCopies
from broker_store.transactions.half_outputs import op_output
from gantry_chassis.logs.structured import get_logger
from gantry_wire.errors import RefusedRequest
from gantry_wire.names import HALF_TOPIC
from gantry_wire.private_requests.settling import SettleItem, SettleResult
from gantry_wire.records.units import CONSUME_QUEUE_UNIT

PAUSE_SECONDS = 1.0
COPIES_MAX = 256
"""Copies settled at once. The rest wait for the next turn."""

_log = get_logger()


class LateCopies:
    """Looks for such copies every second. Usually there are none."""

    def __init__(self, copies: HalfCopies, queues: QueueTable, settle: Settle) -> None:
        self._copies = copies
        self._queues = queues
        self._settle = settle

    async def run(self) -> None:
        """Look and settle for ever. Supervise it as a named loop."""
        while True:
            await asyncio.sleep(PAUSE_SECONDS)
            self.turn()

    def turn(self) -> None:
        """Settle the copies known now. A refused one is retried in the next turn."""
        by_topic: dict[str, list[SettleItem]] = {}
        for copy in self._copies.late_copies(COPIES_MAX):
            item = self._item(copy)
            if item is not None:
                by_topic.setdefault(copy.topic, []).append(item)
        for topic, items in by_topic.items():
            try:
                self._settle(topic, 0, "", None, items, _done)
            except RefusedRequest as refusal:
                _done(refusal)

    def _item(self, copy: Copy) -> SettleItem | None:
        queue = self._queues.find(copy.topic, 0)
        unit = b"" if queue is None else queue.read(copy.offset, 1)
        if not unit:
            return None  # retention has removed it
        position = CONSUME_QUEUE_UNIT.unpack(unit)[0]
        outputs = [op_output(copy.offset)] if copy.topic == HALF_TOPIC else []
        return SettleItem(copy.offset, position, outputs, SUPERSEDED)


def _done(results: Sequence[SettleResult] | RefusedRequest) -> None:
    if isinstance(results, RefusedRequest):
        _log.debug("copies of decided halves stay for now", reason=str(results))
