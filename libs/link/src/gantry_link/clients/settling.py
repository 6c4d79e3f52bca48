"""Client of claim and settle, for the owner of a system queue. One method per request code, 9001 to 9006 and 9040."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gantry_link.calling.store_calls import BULK, StoreCalls
from gantry_wire.codes import GantryCode
from gantry_wire.private_requests.settling import (
    ClaimBody,
    ClaimHeader,
    ClaimHolderHeader,
    ClaimHolderReplyHeader,
    ClaimQueue,
    ClaimReplyBody,
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
    """Claim and settle calls to one store. Every method raises BrokerRefused (with `gantryCode` in its `fields`) or LinkError.

    A claim belongs to its connection, so the calls that use it all go over the SMALL connection.
    """

    async def claim(
        self,
        queues: Sequence[tuple[str, int]],
        *,
        owner: str,
        address: str,
        ttl_ms: int = 3000,
        group: str = "",
    ) -> ClaimReplyBody:
        """9001: claim queues (topic, queue id), or renew the claims, every third of `ttl_ms`: all of them or none.

        BrokerRefused with HELD has the holder in its fields.
        """
        header = ClaimHeader(owner=owner, address=address, ttl_ms=ttl_ms, group=group)
        body = ClaimBody([ClaimQueue(topic, queue_id) for topic, queue_id in queues])
        answer = await self.ask(GantryCode.CLAIM_QUEUES, header, _encode(body))
        return decode_json(answer.body, ClaimReplyBody)

    async def release(self, topic: str, queue_id: int, epoch: int) -> None:
        """9002: release a claim. A claim that has already ended is not an error."""
        header = ReleaseClaimHeader(topic=topic, queue_id=queue_id, epoch=epoch)
        await self.ask(GantryCode.RELEASE_CLAIM, header)

    async def settle(
        self, topic: str, queue_id: int, epoch: int, items: Sequence[SettleItem], *, group: str = ""
    ) -> SettleReplyBody:
        """9003: decide items. Returns one result per item, in order. BrokerRefused with FENCED means that the claim ended.

        In that case the first items may have been decided before.
        After a LinkError or RESULT_UNKNOWN, send the same items again: decided items are answered `already`.
        """
        header = SettleHeader(topic=topic, queue_id=queue_id, group=group, epoch=epoch)
        answer = await self.ask(GantryCode.SETTLE, header, _encode(SettleBody(list(items))))
        return decode_json(answer.body, SettleReplyBody)

    async def state(
        self, topic: str, queue_id: int, *, group: str = "", from_offset: int = 0
    ) -> SettledStateBody:
        """9004: return all ranges of decided items above the cursor, from `from_offset`."""
        settled: list[tuple[int, int]] = []
        while True:
            header = SettledStateHeader(topic=topic, queue_id=queue_id, group=group, from_offset=from_offset)
            answer = await self.ask(GantryCode.SETTLED_STATE, header, connection_class=BULK)
            state = decode_json(answer.body, SettledStateBody)
            settled += state.settled
            if state.next is None:
                state.settled = settled
                return state
            from_offset = state.next

    async def holder(self, topic: str, queue_id: int) -> ClaimHolderReplyHeader:
        """9005: return the holder of the claim on a queue; `held_by` is None if it is unclaimed."""
        header = ClaimHolderHeader(topic=topic, queue_id=queue_id)
        return (await self.ask(GantryCode.CLAIM_HOLDER, header)).read(ClaimHolderReplyHeader)

    async def store_time(self) -> StoreTimeReplyHeader:
        """9006: return the store's clocks."""
        return (await self.ask(GantryCode.STORE_TIME)).read(StoreTimeReplyHeader)

    async def message_events(self, topic: str, queue_id: int, offset: int) -> list[MessageEvent]:
        """9040: return the events of one message."""
        header = MessageEventsHeader(topic=topic, queue_id=queue_id, offset=offset)
        answer = await self.ask(GantryCode.MESSAGE_EVENTS, header)
        return decode_json(answer.body, MessageEventsBody).events
