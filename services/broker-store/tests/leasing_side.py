"""A whole store without a network over a simulated disk, and a client that receives and acknowledges step by step."""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from sending_side import DIRECTORY, ScriptedPeer, SendingSide

from broker_store.commit.visible.store_events import StoreListeners
from broker_store.config.broker_config import BrokerConfig
from broker_store.config.config_files import DataVersionCounter
from broker_store.groups.group_records import settle_groups
from broker_store.log.files.simulated_files import SimulatedFiles
from broker_store.process.extension_hooks import Hooks
from broker_store.process.halves_and_features import build_halves, listeners_of
from broker_store.requests.extensions import Extensions
from gantry_wire.bodies.cluster import SubscriptionGroupConfig
from gantry_wire.codes import GantryCode
from gantry_wire.frames.command import Command
from gantry_wire.private_requests.leases import (
    ItemKind,
    LeaseItem,
    LeaseItemsHeader,
    ReceiveHeader,
    ReceiveReplyHeader,
    WaitHeader,
    pack_items,
    unpack_runs,
)
from gantry_wire.records.message_record import Record, scan_records


class Given(NamedTuple):
    """A message that was received."""

    record: Record
    lease: int
    attempt: int
    is_retry: bool

    @property
    def body(self) -> str:
        return self.record.body.decode()


class LeasingSide(SendingSide):
    """Adds the reading side and the leases."""

    def __init__(self, files: SimulatedFiles | None = None, *arguments: Any, **settings: Any) -> None:
        super().__init__(files, *arguments, **settings)
        self.table.add_all({**self.consuming.commands(), **self.leasing.commands()})
        self.consuming.start(was_stopped=self.store.was_stopped)

    def build_rest(self) -> StoreListeners:
        self.config = BrokerConfig({"brokerName": "broker-a"}, DataVersionCounter(self.clock.now_ms))
        self.halves = build_halves(self.around, self.store, self.foundation, self.sending, self.config)
        self.consuming, self.leasing = self.halves.consuming, self.halves.leasing
        self.client = ScriptedPeer(port=41000)
        hooks = Hooks(Extensions([], lambda *_: None), self.clock.now_ms)
        return listeners_of(self.around, self.store, self.foundation, self.halves, hooks, self.rolls)

    def begin_records(self) -> None:
        reading, store = self.foundation.reading, self.store
        origin = settle_groups(
            reading.groups, store.states.config, reading.groups_found, was_stopped=store.was_stopped
        )
        self.halves.group_records.begin(origin)
        super().begin_records()

    def set_group(self, group: str = "g", **changes: Any) -> None:
        self.consuming.groups.put(SubscriptionGroupConfig(group_name=group, **changes))

    def put(self, *bodies: str, topic: str = "orders", queue_id: int = 0, **properties: str) -> None:
        """Send messages, and flush."""
        for body in bodies:
            named = {"UNIQ_KEY": f"U{body[:20]}", **properties}
            self.send(ScriptedPeer(), topic, body.encode(), queue_id, properties=named)
        self.flush()

    def asked(self, code: int, header: Any, body: bytes = b"") -> Command | None:
        """Submit a request. Returns its answer, if there is one yet."""
        opaque = self.ask(self.client, code, header, body)
        return self.answer_to(opaque)

    def answer_to(self, opaque: int) -> Command | None:
        found = [answer for answer in self.client.answers if answer.opaque == opaque]
        return found[-1] if found else None

    def lease_raw(self, **fields: Any) -> Command | None:
        header = {"group": "g", "topic": "orders", "max_messages": 32, "invisible_ms": 30_000, **fields}
        return self.asked(GantryCode.RECEIVE, ReceiveHeader(**header))

    def lease(self, **fields: Any) -> list[Given]:
        """Receive. Flushes where a filter or a start must be in the log first."""
        answer = self.lease_raw(**fields)
        if answer is None:
            self.flush()
            answer = self.answer_to(self._opaque)
        assert answer is not None
        assert answer.code == 0, answer.remark
        return given(answer, fields.get("topic", "orders"))

    def settle(self, *items: LeaseItem, group: str = "g", topic: str = "orders", **fields: Any) -> list[int]:
        """Acknowledge or give back, and flush. Returns the statuses."""
        header = LeaseItemsHeader(group=group, topic=topic, **fields)
        opaque = self.ask(self.client, GantryCode.ACK, header, pack_items(items))
        self.flush()
        answer = self.answer_to(opaque)
        assert answer is not None
        assert answer.code == 0, answer.remark
        return list(answer.body)

    def ack(self, *messages: Given, **more: Any) -> list[int]:
        return self.settle(*[item(one, ItemKind.ACK) for one in messages], **more)

    def nack(self, *messages: Given, delay_ms: int = 0, **more: Any) -> list[int]:
        return self.settle(*[item(one, ItemKind.NACK, delay_ms) for one in messages], **more)

    def extend(self, *messages: Given, invisible_ms: int = 60_000) -> list[int]:
        header = LeaseItemsHeader(group="g", topic="orders", invisible_ms=invisible_ms)
        answer = self.asked(
            GantryCode.EXTEND_LEASE, header, pack_items([item(one, ItemKind.EXTEND) for one in messages])
        )
        assert answer is not None
        return list(answer.body)

    def wait(self, wait_id: int = 1, wait_ms: int = 10_000, **fields: Any) -> int:
        header = WaitHeader(**{"group": "g", "topic": "orders", **fields}, wait_id=wait_id, wait_ms=wait_ms)
        return self.ask(self.client, GantryCode.WAIT_FOR_MESSAGES, header)

    def pass_time(self, seconds: float) -> None:
        super().pass_time(seconds)
        self.leasing.tick()

    def note_failures(self) -> None:
        """Do what the store does every second."""
        for _ in range(20):
            self.leasing.tick()
        self.flush()

    async def finish(self, work: Any) -> Any:
        """Await work whose records the test flushes."""
        task = asyncio.ensure_future(work)
        async with asyncio.timeout(30):
            while not task.done():
                await asyncio.sleep(0)
                self.flush()
        return task.result()

    def before_dead_letters_read(self, monkeypatch: Any, change: Callable[[], object]) -> None:
        """Let the world change while a dead letter waits for the bytes of its message."""
        moves = self.leasing._moves
        right = moves.in_thread

        async def change_and_read(call: Callable[..., Any], *arguments: Any) -> Any:
            change()
            self.flush()
            return await right(call, *arguments)

        monkeypatch.setattr(moves, "in_thread", change_and_read)

    def committed(self, queue_id: int = 0, group: str = "g", topic: str = "orders") -> int | None:
        return self.consuming.offsets.find(group, topic, queue_id)


def given(answer: Command, topic: str = "orders") -> list[Given]:
    """Return the messages of a receive's answer."""
    header = answer.read(ReceiveReplyHeader)
    runs, records = unpack_runs(answer.body, header.runs)
    leases = [(run.lease, run.attempt) for run in runs for _ in range(run.records)]
    found = list(scan_records(bytes(records)))
    assert len(found) == len(leases)
    return [
        Given(record, *lease, record.topic.decode() != topic)
        for record, lease in zip(found, leases, strict=True)
    ]


def item(message: Given, kind: ItemKind, delay_ms: int = 0) -> LeaseItem:
    record = message.record
    return LeaseItem(
        kind, int(message.is_retry), record.queue_id, record.queue_offset, message.lease, delay_ms
    )


def bodies(messages: list[Given]) -> list[str]:
    return [message.body for message in messages]


__all__ = ["DIRECTORY", "Given", "LeasingSide", "bodies", "given", "item"]
