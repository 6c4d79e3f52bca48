"""Assigned queues: started at the group's offset, handed over after the running call, released with their lock."""

import asyncio
from collections.abc import Callable
from time import monotonic

import pytest
from received import QUEUES, received, until

from gantry_link.errors import NotConnected
from gantry_wire.bodies import cluster as cluster_bodies
from gantry_wire.bodies.clients import LockBatchRequestBody, LockBatchResponseBody
from gantry_wire.bodies.json_body import decode_body, encode_body
from gantry_wire.frames.command import Command
from gantrymq.consumer.shared import assigned_queues as module
from gantrymq.consumer.shared.assigned_queues import AssignedQueues
from gantrymq.consumer.shared.locking import Locks
from gantrymq.consumer.shared.offsets import NotWritten, OffsetTable
from gantrymq.consumer.shared.process_queue import ProcessQueue
from gantrymq.consumer.shared.settings import ConsumerSettings
from gantrymq.message import MessageQueue

pytestmark = pytest.mark.anyio


class LockKeeper:
    """A broker that gives locks, or not, and knows no offsets."""

    def __init__(self) -> None:
        self.free = set(QUEUES)
        self.away = False
        self.unlocked: list[MessageQueue] = []

    def store(self, broker: str):
        return self

    async def ask(self, code, header, body, **_):
        if self.away:
            raise NotConnected("away")
        wanted = decode_body(body, LockBatchRequestBody).mq_set
        queues = [MessageQueue(each.topic, each.broker_name, each.queue_id) for each in wanted]
        if code == 42:
            self.unlocked += queues
        ok = [
            cluster_bodies.MessageQueue(topic=queue.topic, broker_name=queue.broker, queue_id=queue.queue_id)
            for queue in queues
            if queue in self.free
        ]
        return Command(body=encode_body(LockBatchResponseBody(lock_ok_mq_set=ok)))


class Notes:
    """An offset store that begins everything at 5."""

    def __init__(self) -> None:
        self.table = OffsetTable()
        self.reads: list[MessageQueue] = []
        self.writes: list[set[MessageQueue]] = []
        self.failing: NotWritten = {}

    async def read(self, queue: MessageQueue) -> int:
        self.reads.append(queue)
        return 5

    async def write(self, only=None, *, wait: bool = False) -> NotWritten:
        self.writes.append(set(only or ()))
        return self.failing


async def test_an_unwritten_offset_of_a_hand_over_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def nothing() -> None:
        await asyncio.sleep(3600)

    notes = Notes()
    held = AssignedQueues(
        LockKeeper(), "g", ConsumerSettings(), notes, None, lambda queue: [nothing()], monotonic
    )
    assert await held.take(QUEUES[:2])
    notes.failing = {QUEUES[1]: NotConnected("away")}
    assert await held.drop(QUEUES[:2])
    assert caplog.text.count("could not be written at its hand-over") == 1
    assert "queue_id=1" in caplog.text
    await held.close()


async def test_a_lost_lock_ends_the_work_and_the_offset_is_read_again_with_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keeper, notes = LockKeeper(), Notes()

    async def nothing() -> None:
        await asyncio.sleep(3600)

    locks = Locks("g", "me", keeper.store)
    held = AssignedQueues(
        keeper, "g", ConsumerSettings(orderly=True), notes, locks, lambda queue: [nothing()], monotonic
    )
    keeper.free.discard(QUEUES[3])
    assert not await held.take(QUEUES), "one is locked by another member"
    assert set(held.queues) == set(QUEUES[:3])
    assert all(each.next_offset == 5 and each.has_valid_lock(monotonic()) for each in held.queues.values())
    first = held.queues[QUEUES[0]]
    keeper.free.discard(QUEUES[0])
    assert await held.renew_locks()
    assert first.dropped
    assert QUEUES[0] not in held.queues
    keeper.away = True
    assert not await held.renew_locks(), "an answer that does not come takes no lock away"
    keeper.away = False
    keeper.free.add(QUEUES[0])
    notes.reads.clear()
    assert await held.take([QUEUES[0]])
    assert notes.reads == [QUEUES[0]]
    monkeypatch.setattr(module, "LOCK_KEPT_SECONDS", 0.0)
    assert await held.renew_locks(), "after so long another member may have had it"
    assert held.queues == {}
    await held.take(QUEUES[:2])
    await held.drop(QUEUES[:2])
    assert (notes.writes[-1], keeper.unlocked, held.queues) == (set(QUEUES[:2]), QUEUES[:2], {})
    await held.close()


class SlowKeeper(LockKeeper):
    """Answers when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()

    async def ask(self, code, header, body, **options):
        answer = await super().ask(code, header, body, **options)
        await self.gate.wait()
        return answer


def orderly(keeper: LockKeeper, notes: Notes, steady: Callable[[], float]) -> AssignedQueues:
    """Return the queues of an orderly member whose work does nothing."""

    async def nothing() -> None:
        await asyncio.sleep(3600)

    settings, locks = ConsumerSettings(orderly=True), Locks("g", "me", keeper.store)
    return AssignedQueues(keeper, "g", settings, notes, locks, lambda queue: [nothing()], steady)


@pytest.mark.parametrize("is_lost", [False, True])
async def test_a_renewal_counts_for_a_queue_that_is_restarted_meanwhile(is_lost: bool) -> None:
    keeper, now = SlowKeeper(), 0.0

    held = orderly(keeper, Notes(), lambda: now)
    assert await held.take(QUEUES[:1])
    now = 20.0
    keeper.gate.clear()
    if is_lost:
        keeper.free.clear()
    renewing = asyncio.ensure_future(held.renew_locks())
    await asyncio.sleep(0)
    held.begin(QUEUES[0], 3)  # a reset
    keeper.gate.set()
    assert await renewing == is_lost
    assert (QUEUES[0] not in held.queues) == is_lost
    if not is_lost:
        assert held.queues[QUEUES[0]].has_valid_lock(49.0)
    await held.close()


async def test_a_lock_counts_from_its_request_on() -> None:
    """A process that was suspended before it read the offset may have lost the lock meanwhile."""
    keeper, now = LockKeeper(), 0.0

    class Suspended(Notes):
        async def read(self, queue: MessageQueue) -> int:
            nonlocal now
            now += 100.0
            return await super().read(queue)

    held = orderly(keeper, Suspended(), lambda: now)
    await held.take(QUEUES[:1])
    assert not held.queues[QUEUES[0]].has_valid_lock(now)
    assert await held.renew_locks(), "its offset is read again"
    await held.close()


def orderly_holding(keeper: LockKeeper, ends: list[str]) -> AssignedQueues:
    """Queues in hand whose servers say how they ended."""

    async def pipeline() -> None:
        await asyncio.sleep(3600)

    async def serve(held: ProcessQueue) -> None:
        try:
            while not held.dropped or held.taken:
                await asyncio.sleep(0.001)
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise
        ends.append("by itself")

    locks = Locks("g", "me", keeper.store)
    settings = ConsumerSettings(orderly=True)
    return AssignedQueues(
        keeper, "g", settings, Notes(), locks, lambda queue: [pipeline(), serve(queue)], monotonic
    )


async def with_a_call(held: AssignedQueues, queue: MessageQueue) -> ProcessQueue:
    """Take a queue up whose listener is in the middle of a call."""
    assert await held.take([queue])
    busy = held.queues[queue]
    busy.put([received(5)], 6)
    busy.take(1)
    await asyncio.sleep(0.01)
    return busy


async def test_a_queue_is_handed_over_after_its_running_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "HAND_OVER_SECONDS", 0.01)
    keeper = LockKeeper()
    held = orderly_holding(keeper, [])
    busy = await with_a_call(held, QUEUES[0])
    assert await held.take([QUEUES[1]])
    assert not await held.drop(QUEUES[:2])
    assert keeper.unlocked == [QUEUES[1]], "the other one is not held up"
    assert held.held("orders") == []
    assert not await held.take(QUEUES[:1]), "nor is it restarted beside the call"
    assert not await held.finish_drops()
    busy.commit()
    assert await held.finish_drops()
    assert keeper.unlocked == [QUEUES[1], QUEUES[0]]
    assert await held.take(QUEUES[:1])
    await held.close()


async def test_a_queue_that_is_being_handed_over_is_not_restarted() -> None:
    keeper, notes, gate = LockKeeper(), Notes(), asyncio.Event()

    async def nothing() -> None:
        await asyncio.sleep(3600)

    async def write(only=None, *, wait: bool = False) -> NotWritten:
        await gate.wait()
        return {}

    notes.write = write
    locks = Locks("g", "me", keeper.store)
    held = AssignedQueues(
        keeper, "g", ConsumerSettings(orderly=True), notes, locks, lambda queue: [nothing()], monotonic
    )
    assert await held.take(QUEUES[:1])
    dropping = asyncio.ensure_future(held.drop(QUEUES[:1]))
    await asyncio.sleep(0.01)
    leaving = held.queues[QUEUES[0]]
    held.begin(QUEUES[0], 0)  # as for a reset (220) that comes meanwhile
    assert leaving.released, "a call that still runs does not undo the reset"
    gate.set()
    assert await dropping
    assert keeper.unlocked == QUEUES[:1]
    assert held.queues == {}, "another member has it"
    await held.close()


async def test_unsubscribing_while_queues_are_taken_leaves_none_without_work() -> None:
    keeper, notes, wanted, gate = LockKeeper(), Notes(), {"orders"}, asyncio.Event()

    async def read(queue: MessageQueue) -> int:
        await gate.wait()
        return 5

    async def nothing() -> None:
        await asyncio.sleep(3600)

    def work(held: ProcessQueue):
        if held.queue.topic not in wanted:
            raise KeyError(held.queue.topic)
        return [nothing()]

    notes.read = read
    held = AssignedQueues(keeper, "g", ConsumerSettings(), notes, None, work, monotonic)
    taking = asyncio.ensure_future(held.take(QUEUES))
    await asyncio.sleep(0.01)
    wanted.clear()
    gate.set()
    await asyncio.gather(taking, return_exceptions=True)
    wanted.add("orders")
    await held.take(QUEUES)
    assert set(held.queues) == set(QUEUES)
    assert len(held._tasks) == len(QUEUES), "each has its pipeline"
    await held.close()


async def test_a_restarted_queue_is_handed_over_after_its_running_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "HAND_OVER_SECONDS", 0.01)
    keeper = LockKeeper()
    held = orderly_holding(keeper, [])
    busy = await with_a_call(held, QUEUES[0])
    held.begin(QUEUES[0], 0)  # a reset (220)
    assert not await held.drop(QUEUES[:1])
    assert keeper.unlocked == [], "its call still runs"
    busy.commit()
    assert await held.finish_drops()
    assert keeper.unlocked == QUEUES[:1]
    await held.close()


async def test_an_endless_call_does_not_keep_a_queue_and_is_not_interrupted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "HAND_OVER_SECONDS", 0.01)
    keeper, ends = LockKeeper(), list[str]()
    held = orderly_holding(keeper, ends)
    busy = await with_a_call(held, QUEUES[0])
    assert not await held.drop(QUEUES[:1])
    monkeypatch.setattr(module, "LOCK_RENEW_SECONDS", -1.0)
    assert await held.finish_drops()
    assert keeper.unlocked == QUEUES[:1]
    await asyncio.sleep(0.01)
    assert ends == []
    busy.commit()
    await until(lambda: ends == ["by itself"])
    await held.close()
