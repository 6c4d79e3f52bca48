"""Claim and settle from the outside: what the owner of a system queue asks a store. One method per request code, 9001 to 9006 and 9040."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gantry_link.store_calls import BULK, StoreCalls
from gantry_wire.codes import GantryCode
from gantry_wire.settle_headers import (
    ClaimHeader,
    ClaimHolderHeader,
    ClaimHolderReplyHeader,
    ClaimReplyHeader,
    MessageEvent,
    MessageEventsBody,
    MessageEventsHeader,
    ReleaseClaimHeader,
    SettleBody,
    SettledStateBody,
    SettledStateHeader,
    SettleHeader,
    SettleItem,
    SettleReplyBody,
    StoreTimeReplyHeader,
    decode_json,
)

_encode = msgspec.json.Encoder().encode


class SettleClient(StoreCalls):
    """The settling calls of one store. Every method raises BrokerRefused (its `fields` hold `gantryCode`) or LinkError.

    A claim belongs to the connection it was made over: these calls use the pool's small lane throughout.
    """

    async def claim(
        self, topic: str, queue_id: int, *, owner: str, address: str, ttl_ms: int = 3000, group: str = ""
    ) -> ClaimReplyHeader:
        """9001: claim a queue, or keep the claim: every third of `ttl_ms`. BrokerRefused with HELD names the holder in its fields."""
        header = ClaimHeader(
            topic=topic, queue_id=queue_id, owner=owner, address=address, ttl_ms=ttl_ms, group=group
        )
        return (await self.ask(GantryCode.CLAIM_QUEUE, header)).read(ClaimReplyHeader)

    async def release(self, topic: str, queue_id: int, epoch: int) -> None:
        """9002: give a claim up. One that is over is no error."""
        header = ReleaseClaimHeader(topic=topic, queue_id=queue_id, epoch=epoch)
        await self.ask(GantryCode.RELEASE_CLAIM, header)

    async def settle(
        self, topic: str, queue_id: int, epoch: int, items: Sequence[SettleItem], *, group: str = ""
    ) -> SettleReplyBody:
        """9003: decide items; one result for each, in order. BrokerRefused with FENCED: the claim is over.

        A first part of many items may have been decided before it ended.
        After a LinkError or RESULT_UNKNOWN ask again with the same items: what was decided is answered `already`.
        """
        header = SettleHeader(topic=topic, queue_id=queue_id, group=group, epoch=epoch)
        answer = await self.ask(GantryCode.SETTLE, header, _encode(SettleBody(list(items))))
        return decode_json(answer.body, SettleReplyBody)

    async def state(
        self, topic: str, queue_id: int, *, group: str = "", from_offset: int = 0
    ) -> SettledStateBody:
        """9004: which items are decided, all ranges above the cursor from `from_offset` on."""
        settled: list[tuple[int, int]] = []
        while True:
            header = SettledStateHeader(topic=topic, queue_id=queue_id, group=group, from_offset=from_offset)
            answer = await self.ask(GantryCode.SETTLED_STATE, header, lane=BULK)
            state = decode_json(answer.body, SettledStateBody)
            settled += state.settled
            if state.next is None:
                state.settled = settled
                return state
            from_offset = state.next

    async def holder(self, topic: str, queue_id: int) -> ClaimHolderReplyHeader:
        """9005: who holds the claim on a queue; `held_by` is None when nobody does."""
        header = ClaimHolderHeader(topic=topic, queue_id=queue_id)
        return (await self.ask(GantryCode.CLAIM_HOLDER, header)).read(ClaimHolderReplyHeader)

    async def store_time(self) -> StoreTimeReplyHeader:
        """9006: the store's clocks."""
        return (await self.ask(GantryCode.STORE_TIME)).read(StoreTimeReplyHeader)

    async def message_events(self, topic: str, queue_id: int, offset: int) -> list[MessageEvent]:
        """9040: what the store knows of one message beside its record."""
        header = MessageEventsHeader(topic=topic, queue_id=queue_id, offset=offset)
        answer = await self.ask(GantryCode.MESSAGE_EVENTS, header)
        return decode_json(answer.body, MessageEventsBody).events
