"""A power cut or a kill at every step: an answered delayed send waits in its queue once, due as answered."""

import asyncio
from collections import Counter

import pytest
from sending_side import ScriptedPeer, SendingSide
from simulated_days import chosen_steps, crashes, day_until, steps_of

from broker_store.log.files.simulated_files import SimulatedFiles
from gantry_wire.codes import RequestCode
from gantry_wire.headers.messages import RecallHeader, SendReplyHeader
from gantry_wire.names import SCHEDULE_TOPIC, TIMER_TOPIC

pytestmark = [pytest.mark.anyio, pytest.mark.crash, pytest.mark.timeout(300)]
MIB = 1024 * 1024
STATES_PER_STEP = 3
LEVELS = {"DELAY": "2"}, {"DELAY": "18"}, {"TIMER_DELAY_MS": "90000"}
"""The requested delays, in turn."""


class DelayedDay:
    """Delayed sends with keys, a recall, two checkpoints, a roll into the next segment."""

    def __init__(self) -> None:
        self.files = SimulatedFiles()
        self.peer = ScriptedPeer()
        self.sent: Counter[str] = Counter()
        self.answered: dict[str, SendReplyHeader] = {}
        self.recalled: list[str] = []

    async def live(self) -> None:
        side = SendingSide(self.files, segment_bytes=MIB)
        for number in range(4):
            self.send(side, f"a{number}", number)
        await side.sending.checkpoints.take()
        for number in range(6):
            self.send(side, f"b{number}", number, b"x" * 250_000)
        self.recall(side, "b2")
        await side.sending.checkpoints.take()
        self.send(side, "late", 0)
        self.recall(side, "a2")
        await side.sending.checkpoints.close()

    def send(self, side: SendingSide, key: str, number: int, body: bytes = b"") -> None:
        self.sent[key] += 1
        side.pass_time(0.5)
        side.send(self.peer, "orders", body, 0, properties=properties_of(key, number))
        side.flush()
        self.answered[key] = self.peer.answers[-1].read(SendReplyHeader)

    def recall(self, side: SendingSide, key: str) -> None:
        header = RecallHeader(topic="orders", recall_handle=self.answered[key].recall_handle or "")
        side.ask(self.peer, RequestCode.RECALL_MESSAGE, header)
        side.flush()
        assert self.peer.answers[-1].code == 0
        self.recalled.append(key)


def properties_of(key: str, number: int) -> dict[str, str]:
    return {"UNIQ_KEY": f"U{key}", "__GANTRY_KEY": key, **LEVELS[number % len(LEVELS)]}


def check(day: DelayedDay, disk: SimulatedFiles) -> None:
    side = SendingSide(disk, 1_700_000_010.0, segment_bytes=MIB)
    if day.answered:
        assert side.sending.store.topics.find("orders"), (
            "what waits for a topic that is gone is never delivered"
        )
    waiting = {**levels_of(side, 1), **levels_of(side, 17), **timers_of(side)}
    for key, answered in day.answered.items():
        assert waiting.get(key) == answered.deliver_ms, f"answered and lost, or due at another time: {key}"
    assert set(waiting) <= set(day.sent), "more than was sent"
    cancelled = [
        record.property_map()["TIMER_DEL_UNIQKEY"]
        for record in side.records(TIMER_TOPIC)
        if "TIMER_DEL_UNIQKEY" in record.property_map()
    ]
    assert [f"orders+U{key}" for key in day.recalled] == cancelled[: len(day.recalled)]
    assert side.records("orders") == [], "delivered by the store itself"
    repeat(side, day)


def levels_of(side: SendingSide, queue_id: int) -> dict[str, int]:
    """Return key → due time, from the units of a level's queue."""
    records = side.records(SCHEDULE_TOPIC, queue_id)
    queue = side.queues.open(SCHEDULE_TOPIC, queue_id)
    units = queue.read(queue.min_offset, len(records))
    due = [int.from_bytes(units[at + 12 : at + 20], "big") for at in range(0, len(units), 20)]
    return {record.property_map()["__GANTRY_KEY"]: ms for record, ms in zip(records, due, strict=True)}


def timers_of(side: SendingSide) -> dict[str, int]:
    maps = [record.property_map() for record in side.records(TIMER_TOPIC)]
    return {each["__GANTRY_KEY"]: int(each["TIMER_OUT_MS"]) for each in maps if "__GANTRY_KEY" in each}


def repeat(side: SendingSide, day: DelayedDay) -> None:
    """Repeat the answered sends: nothing new is stored."""
    end = side.log.end
    for key, answered in day.answered.items():
        number = 0 if key == "late" else int(key[1:])
        body = b"x" * 250_000 if key.startswith("b") else b""
        peer = ScriptedPeer()
        side.send(peer, "orders", body, 0, properties={**properties_of(key, number), "UNIQ_KEY": "again"})
        side.flush()
        answer = peer.answers[0].read(SendReplyHeader)
        assert answer.duplicate, f"stored twice: {key}"
        assert (answer.msg_id, answer.deliver_ms) == (answered.msg_id, answered.deliver_ms)
    assert side.log.end == end


@crashes(sampled=24)
async def test_a_power_cut_at_any_step_keeps_what_waits_and_when_it_is_due(crashes_max, seed):
    for step in chosen_steps(range(await steps_of(DelayedDay)), crashes_max, seed):
        day = await day_until(DelayedDay, step)
        for disk in day.files.crash_states(STATES_PER_STEP, seed=step ^ seed):
            check(day, disk)
        await asyncio.sleep(0)


@crashes(sampled=24)
async def test_a_kill_at_any_step_keeps_what_waits_and_when_it_is_due(crashes_max, seed):
    for step in chosen_steps(range(await steps_of(DelayedDay)), crashes_max, seed):
        day = await day_until(DelayedDay, step)
        check(day, day.files.killed())
        await asyncio.sleep(0)
