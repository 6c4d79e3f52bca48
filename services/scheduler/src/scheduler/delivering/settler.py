"""Sends decisions to one store: SETTLE with our claim's epoch. Reads store time and fencing from the answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from gantry_link.calling.store_calls import StoreCalls
from gantry_link.errors import BrokerRefused
from gantry_link.system_queues.claims import Held, QueueKey
from gantry_wire.codes import GantryCode
from gantry_wire.private_requests.settling import (
    FENCED,
    SettleBody,
    SettleHeader,
    SettleItem,
    SettleReplyBody,
    decode_json,
)
from scheduler.index.store_clock import StoreClock

SETTLE_SECONDS = 10.0
_encode = msgspec.json.Encoder().encode


class Settler:
    """Decisions on items of the queues we hold."""

    def __init__(
        self,
        store: StoreCalls,
        held: Mapping[QueueKey, Held],
        clock: StoreClock,
        steady: Callable[[], float],
        fenced: Callable[[str], None],
    ) -> None:
        self._store, self._held, self._clock, self._steady = store, held, clock, steady
        self._fenced = fenced

    async def settle(self, queue: QueueKey, items: Sequence[SettleItem]) -> SettleReplyBody:
        """Settle items of one queue. Raises LinkError (it may have been done: retry) or BrokerRefused."""
        topic, queue_id = queue
        header = SettleHeader(topic=topic, queue_id=queue_id, epoch=self._held[queue].epoch)
        body = _encode(SettleBody(list(items)))
        try:
            answer = await self._store.ask(GantryCode.SETTLE, header, body, timeout_seconds=SETTLE_SECONDS)
        except BrokerRefused as refused:
            if refused.fields.get("gantryCode") == FENCED:
                self._fenced(refused.remark)
            raise
        reply = decode_json(answer.body, SettleReplyBody)
        self._clock.heard(reply.store_time_ms, self._steady())
        return reply
