"""Leases over the in-memory stores: time is manual, and every request is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from gantry_wire.private_requests.leases import (
    FILTER_CONFLICT,
    ItemKind,
    ItemStatus,
    LeasedRun,
    LeaseItem,
    unpack_items,
)
from gantry_wire.records.message_record import decode_record
from gateway.ports.leases import Leased, ReceiveAsk
from gateway.ports.stores import PeerAway, StoreRefused


class MemoryLeaseStore:
    """One store. Leases a group's messages in order of queues; `later` fails the nacks with a delay."""

    def __init__(self, store) -> None:
        self.store = store
        self.asks: list[ReceiveAsk] = []
        self.filters: dict[str, tuple[str, str]] = {}
        self.leased: dict[tuple[int, int], int] = {}
        self.done: set[tuple[int, int]] = set()
        self.dead: set[tuple[int, int]] = set()
        self.attempts: dict[tuple[int, int], int] = {}
        self.released: list[LeaseItem] = []
        self.reasons: dict[int, str] = {}
        self.delays: list[int] = []
        self.waits = 0
        self.ended = 0
        self.fails_later = False
        self.gate: asyncio.Event | None = None
        """Responses wait for it."""
        self.tasks: list[asyncio.Task] = []
        self._lease = 1 << 32

    def receive(self, ask: ReceiveAsk, on_result) -> None:
        self._pass_on(self._receive(ask), on_result)

    async def _receive(self, ask: ReceiveAsk) -> Leased:
        self.store._enter("receive")
        self.store._topic(ask.topic)
        self.asks.append(ask)
        known = self.filters.get(ask.group)
        if ask.expression_type:
            wanted = (ask.expression_type, ask.expression)
            if known not in {None, wanted} and not ask.is_filter_new:
                raise StoreRefused(604, "the group has another filter", FILTER_CONFLICT)
            self.filters[ask.group] = wanted
        self._lease += 1
        runs: list[LeasedRun] = []
        records: list[bytes] = []
        for (topic, queue_id), queue in sorted(self.store.queues.items()):
            for offset, record in enumerate(queue):
                place = (queue_id, offset)
                taken = place in self.done or place in self.leased
                if topic != ask.topic or taken or len(records) >= ask.count_max:
                    continue
                self.leased[place] = self._lease
                self.attempts[place] = self.attempts.get(place, 0) + 1
                runs.append(LeasedRun(1, self._lease, self.attempts[place]))
                records.append(record)
        assert all(decode_record(record) for record in records)
        return Leased(runs, b"".join(records), self.store._clocks.wall_ms() + ask.invisible_ms)

    def expire(self) -> None:
        self.leased.clear()

    def settle(self, topic: str, group: str, items: bytes, reasons: dict[int, str], on_result) -> None:
        async def run() -> bytes:
            self.store._enter("settle")
            self.reasons.update(reasons)
            return bytes(self._settle(LeaseItem(*item)) for item in unpack_items(items))

        self._pass_on(run(), on_result)

    def _pass_on(self, answering, on_result) -> None:
        async def answer() -> None:
            try:
                outcome = await answering
            except (StoreRefused, PeerAway) as error:
                outcome = error
            if self.gate is not None:
                await self.gate.wait()
            on_result(outcome)

        self.tasks.append(asyncio.ensure_future(answer()))

    def _settle(self, item: LeaseItem) -> int:
        place = (item.queue_id, item.offset)
        if place in self.done:
            return ItemStatus.DONE
        if item.queue_id > 3:
            return ItemStatus.INVALID
        if self.leased.get(place) != item.lease:
            return ItemStatus.EXPIRED
        if item.kind == ItemKind.NACK:
            self.delays.append(item.delay_ms)
            if self.fails_later:
                return ItemStatus.FAILED
        del self.leased[place]
        if item.kind == ItemKind.DEAD:
            self.dead.add(place)
        if item.kind in {ItemKind.ACK, ItemKind.DEAD}:
            self.done.add(place)
        return ItemStatus.DONE

    async def release(self, topic: str, group: str, items: Sequence[LeaseItem]) -> None:
        self.released += items
        for item in items:
            self.leased.pop((item.queue_id, item.offset), None)

    async def extend(
        self, topic: str, group: str, items: Sequence[LeaseItem], invisible_ms: int
    ) -> tuple[bytes, int]:
        self.store._enter("extend")
        held = [self.leased.get((item.queue_id, item.offset)) == item.lease for item in items]
        statuses = bytes(ItemStatus.DONE if one else ItemStatus.EXPIRED for one in held)
        return statuses, self.store._clocks.wall_ms() + invisible_ms

    async def wait(self, topic: str, group: str, wait_ms: int) -> bool:
        self.store._enter("wait")
        self.waits += 1
        deadline = asyncio.get_running_loop().time() + wait_ms / 1000
        try:
            while asyncio.get_running_loop().time() < deadline:
                total = sum(len(queue) for (name, _), queue in self.store.queues.items() if name == topic)
                if total > len(self.done) + len(self.leased):
                    return True
                await asyncio.sleep(0.005)
        except asyncio.CancelledError:
            self.ended += 1
            raise
        return False


class MemoryLeases:
    """Implements the LeaseStores port over a MemorySystem."""

    def __init__(self, system) -> None:
        self._system = system
        self.stores: dict[str, MemoryLeaseStore] = {}

    def at(self, broker: str, address: str) -> MemoryLeaseStore:
        known = self.stores.get(broker)
        if known is None or known.store.address != address:
            known = self.stores[broker] = MemoryLeaseStore(self._system.at(broker, address))
        return known
