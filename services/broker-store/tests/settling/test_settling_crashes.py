"""A crash at every step of a day of claims and decisions: each item is decided once or not at all, with all of its records or none."""

import asyncio
import contextlib
from collections import Counter

import pytest
from sending_side import ScriptedPeer
from settling_side import SettlingSide, deliver
from simulated_days import chosen_steps, crashes

from broker_store.commit.topics import MARKS_TOPIC
from broker_store.log.files.simulated_files import Crashed, SimulatedFiles
from broker_store.settling.decided.mark import read_mark
from gantry_wire.names import OP_HALF_TOPIC, SCHEDULE_TOPIC
from gantry_wire.private_requests.settling import SettleOutput

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300), pytest.mark.crash]
MIB = 1024 * 1024
ITEMS = 9
COPIES = {0: 1, 1: 1, 2: 3, 3: 0, 4: 2, 5: 1, 6: 0, 7: 2, 8: 1}
"""Number of output messages of each item. Items 2 and 4 have an op message too."""
OP = SettleOutput(OP_HALF_TOPIC, 0, None, b"0,", {"TAGS": "d"}, properties="none")


def outputs(offset: int) -> list[SettleOutput]:
    copies = [deliver(queue_id=number) for number in range(COPIES[offset])]
    return [*copies, OP] if offset in (2, 4) else copies


class Day:
    """Nine delayed items, some decided, a checkpoint between, the roll into a new segment, an orderly stop."""

    def __init__(self, flush: str = "sync") -> None:
        self.files = SimulatedFiles()
        self.peer = ScriptedPeer()
        self.flush = flush
        self.reported: set[int] = set()
        self.items: set[int] = set()

    async def live(self) -> None:
        side = SettlingSide(self.files, segment_bytes=MIB, flush=self.flush)
        side.topics.ensure("orders", 4)
        for number in range(ITEMS):
            side.delayed(self.peer, b"%d" % number + b"x" * (150_000 if number in (4, 7) else 400))
            self.items.add(number)
        side.pass_time(2)
        epoch = side.claim(self.peer).epoch
        self.settle(side, [1, 2], epoch)
        await side.sending.checkpoints.take()
        self.settle(side, [0], epoch)
        self.settle(side, [4, 3], epoch)
        self.settle(side, [2, 7, 6], epoch)
        await side.sending.checkpoints.take()
        self.settle(side, [8], epoch)
        await side.sending.checkpoints.close()

    def settle(self, side: SettlingSide, offsets: list[int], epoch: int) -> None:
        items = [side.item(offset, *outputs(offset)) for offset in offsets]
        self.reported.update(result.offset for result in side.settled(items, epoch=epoch))


def check(day: Day, disk: SimulatedFiles, *, is_durable: bool) -> None:
    """Open what is left, look, decide everything again, look again, open once more."""
    side = SettlingSide(disk, 1_700_000_100.0, segment_bytes=MIB)
    look(side, day.reported if is_durable else set())
    queue = side.queues.find(SCHEDULE_TOPIC, 0)
    there = range(queue.max_offset if queue else 0)
    assert not is_durable or day.items <= set(there)
    side.topics.ensure("orders", 4)
    side.settled([side.item(offset, *outputs(offset), force=True) for offset in there])
    look(side, set(there))
    again = side.reopen()
    look(again, set(there))
    assert again.settling.state_of((SCHEDULE_TOPIC, 0, "")) == (len(there), len(there))


def look(side: SettlingSide, decided: set[int]) -> None:
    """Check that exactly the decided items have their records, and that items reported as decided are."""
    records = [
        record
        for topic, queue_id in (
            ("orders", 0),
            ("orders", 1),
            ("orders", 2),
            (MARKS_TOPIC, 0),
            (OP_HALF_TOPIC, 0),
        )
        for record in side.records(topic, queue_id)
    ]
    marks = [read_mark(record.properties) for record in records]
    count = Counter(mark.offset for mark in marks if mark is not None)
    assert len(marks) == sum(count.values())
    for offset, found in count.items():
        assert found == max(len(outputs(offset)), 1), f"item {offset} has {found} records"
        assert side.settling.table.is_settled((SCHEDULE_TOPIC, 0, ""), offset)
    assert decided <= set(count), "reported to be decided, and it is not"
    settled = {offset for offset in COPIES if side.settling.table.is_settled((SCHEDULE_TOPIC, 0, ""), offset)}
    assert settled == set(count)


async def day_until(step: int | None, flush: str = "sync") -> Day:
    day = Day(flush)
    day.files.crash_after = step
    with contextlib.suppress(Crashed):
        await day.live()
    day.files.crash_after = None
    return day


@crashes(sampled=30)
@pytest.mark.parametrize("flush", ["sync", "async"])
async def test_a_power_cut_at_any_step_decides_no_item_in_part_or_twice(flush, crashes_max, seed):
    steps = len((await day_until(None, flush)).files.trace)
    for step in chosen_steps(range(steps), crashes_max, seed):
        day = await day_until(step, flush)
        for disk in day.files.crash_states(3, seed=step ^ seed):
            check(day, disk, is_durable=flush == "sync")
        await asyncio.sleep(0)


@crashes(sampled=30)
async def test_a_kill_at_any_step_loses_no_answered_decision(crashes_max, seed):
    steps = len((await day_until(None)).files.trace)
    for step in chosen_steps(range(1, steps), crashes_max, seed):
        day = await day_until(step)
        check(day, day.files.killed(), is_durable=True)
        await asyncio.sleep(0)


async def test_wherever_a_write_was_torn_an_item_has_all_of_its_records_or_none():
    day = Day()
    side = SettlingSide(day.files, segment_bytes=MIB)
    side.topics.ensure("orders", 4)
    for number in range(ITEMS):
        side.delayed(day.peer, b"%d" % number + b"x" * 100)
    side.pass_time(2)
    start = side.log.written_end
    answers = side.settle([side.item(offset, *outputs(offset)) for offset in (5, 2, 3, 4, 7)])
    side.end_turn()  # written, and the flush never comes
    end = side.log.written_end
    assert not answers
    cuts = set()
    for torn_at in range(start, end, 67):
        check(day, day_disk(day, torn_at, end), is_durable=False)
        torn = SettlingSide(day_disk(day, torn_at, end), 1_700_000_100.0, segment_bytes=MIB)
        cuts.add(torn.log.end)
        assert torn.log.end <= torn_at
    assert len(cuts) == 5, "cut in front of each item, nowhere else"


def day_disk(day: Day, torn_at: int, end: int) -> SimulatedFiles:
    disk = day.files.killed()
    disk.open("/store/commitlog/00000000000000000000").pwrite(bytes(end - torn_at), torn_at)
    return disk
