"""Acquires and renews the claims of one owner on queues of one store: all of them or none.

A claim lives in the store. It ends with our connection, after its `ttl`, or when it is released. Epochs fence: the store refuses
requests of an owner that lost its claim. Knows nothing of the queues' content.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from gantry_link.calling.store_calls import StoreCalls
from gantry_link.errors import BrokerRefused, LinkError
from gantry_wire.codes import GantryCode
from gantry_wire.errors import WireError
from gantry_wire.private_requests.leading import NO_LEASE
from gantry_wire.private_requests.settling import (
    HELD,
    ClaimBody,
    ClaimHeader,
    ClaimQueue,
    ClaimReplyBody,
    decode_json,
)

TTL_MS = 3000
RENEWALS_PER_TTL = 3
NO_LEASE_SECONDS = 0.2
"""Interval of attempts at a leader without its lease: one that has just taken over, or does not hear every replica in sync."""
RELEASED = "released"
"""The reason when the owner itself ends its claims; not an error."""
QueueKey = tuple[str, int]
"""Topic and queue id."""


class Held(NamedTuple):
    """A claim that we hold. Times are store time in ms. The offsets are from when it was granted."""

    topic: str
    queue_id: int
    epoch: int
    store_time_ms: int
    cursor: int
    max_offset: int


class Holder(NamedTuple):
    """The holder of a claim and its address."""

    owner: str
    address: str
    until_ms: int


async def claim_holder(store: StoreCalls, topic: str, queue_id: int) -> Holder | None:
    """9005: return the holder of the claim on a queue, or None. Raises BrokerRefused or LinkError."""
    fields = {"topic": topic, "queueId": str(queue_id)}
    ext = (await store.ask(GantryCode.CLAIM_HOLDER, fields)).ext
    owner = ext.get("heldBy")
    return Holder(owner, ext.get("address", ""), int(ext.get("untilMs", "0"))) if owner else None


class Claims:
    """Acquires the claims on `queues`; then renews them until one is lost. One request names all queues.

    The store grants and renews all of them or none. Calls `acquired` with all claims, and `lost` with the reason when they
    end; the claims are valid between the two calls. Both run in the loop and must not block.
    """

    def __init__(
        self,
        store: StoreCalls,
        queues: Sequence[QueueKey],
        *,
        owner: str,
        address: str,
        acquired: Callable[[dict[QueueKey, Held]], None],
        lost: Callable[[str], None],
        ttl_ms: int = TTL_MS,
    ) -> None:
        """`queues` are 1 to CLAIM_QUEUES_MAX. Other services reach the owner at `address` ("host:port")."""
        self.held: dict[QueueKey, Held] = {}
        self.other_holder: Holder | None = None
        """The last holder that the store reported while we did not hold the claims."""
        self._store = store
        self._queues = list(queues)
        self._header = ClaimHeader(owner=owner, address=address, ttl_ms=ttl_ms)
        self._body = msgspec.json.encode(ClaimBody([ClaimQueue(*queue) for queue in queues]))
        self._acquired, self._lost = acquired, lost
        self._ttl_ms = ttl_ms
        self._renewed_at = 0.0
        self._is_lease_missing = False
        self._wake = asyncio.Event()

    @property
    def renewal_seconds(self) -> float:
        """Interval of renewals and of attempts to acquire."""
        return self._ttl_ms / 1000 / RENEWALS_PER_TTL

    async def run(self) -> None:
        """Acquire, renew and acquire again until cancelled, then release."""
        try:
            while True:
                self._wake.clear()
                await self.step()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._pause_seconds()):
                        await self._wake.wait()
        finally:
            await self._release()

    def fenced(self, why: str) -> None:
        """End the claims because the store refused our epoch or the connection ended. Tries again at once."""
        self._end(why)
        self._wake.set()

    async def step(self) -> None:
        """Try once to acquire or renew. Never raises if the store refuses or is unreachable.

        Only the store ends our claims: another owner holds them, or the epoch changed. An unreachable or busy store does not end
        them, and a process that was suspended keeps them if no other owner took them meanwhile.
        """
        asked_at = asyncio.get_running_loop().time()
        self._is_lease_missing = False
        try:
            granted = await self._claim_all()
        except LinkError:
            return
        except (BrokerRefused, WireError, ValueError) as error:
            reason = error.fields.get("gantryCode") if isinstance(error, BrokerRefused) else None
            self._is_lease_missing = reason == NO_LEASE
            if isinstance(error, BrokerRefused) and reason == HELD:
                self._note_holder(error.fields)
                self._end(f"held by {error.fields.get('heldBy', 'another')}")
            elif asked_at - self._renewed_at > self._ttl_ms / 1000:
                self._end(str(error))
            return
        self._take(granted, asked_at)

    def _pause_seconds(self) -> float:
        if self._is_lease_missing and not self.held:
            return min(NO_LEASE_SECONDS, self.renewal_seconds)
        return self.renewal_seconds

    def _take(self, granted: dict[QueueKey, Held], asked_at: float) -> None:
        changed = [
            key for key, claim in granted.items() if key in self.held and self.held[key].epoch != claim.epoch
        ]
        if changed:
            self._end("granted again with a new epoch: the claim had ended meanwhile")
        is_new = not self.held
        self._renewed_at = asked_at
        self.other_holder = None
        if is_new:
            self.held = granted
            self._acquired(granted)

    async def _claim_all(self) -> dict[QueueKey, Held]:
        answer = await self._store.ask(GantryCode.CLAIM_QUEUES, self._header, self._body)
        reply = decode_json(answer.body, ClaimReplyBody)
        return {
            key: Held(*key, claim.epoch, reply.store_time_ms, claim.cursor, claim.max_offset)
            for key, claim in zip(self._queues, reply.claims, strict=True)
        }

    async def _release(self) -> None:
        """Release the claims over the open connection. Without one they ended with it: to connect to a lost machine would take seconds for each."""
        held = list(self.held.values())
        self._end(RELEASED)
        for claim in held:
            if self._store.pool.get_nowait(self._store.address) is None:
                return
            fields = {"topic": claim.topic, "queueId": str(claim.queue_id), "epoch": str(claim.epoch)}
            with contextlib.suppress(BrokerRefused, LinkError):
                await self._store.tell(GantryCode.RELEASE_CLAIM, fields)

    def _end(self, why: str) -> None:
        if self.held:
            self.held = {}
            self._lost(why)

    def _note_holder(self, fields: dict[str, str]) -> None:
        until = fields.get("untilMs", "0")
        self.other_holder = Holder(
            fields.get("heldBy", ""), fields.get("address", ""), int(until) if until.isdecimal() else 0
        )
