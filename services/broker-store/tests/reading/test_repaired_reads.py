"""Work in a thread runs again once what it met damaged is whole; a store without replicas runs it once."""

import asyncio

import pytest

from broker_store.log.commit_log.met_damage import note_damage, noting
from broker_store.log.errors import DamagedRecord
from broker_store.reading.repaired_reads import ASKED_MAX, RepairAwaited, RepairedReads, RepairRequests

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


class Replicas:
    """A log with damaged records, and what other replicas do for each: True, False, or nothing (None)."""

    def __init__(self, **answers):
        self.answers = {int(name[1:]): answer for name, answer in answers.items()}
        self.damaged, self.asked, self.runs, self.most = set(self.answers), [], 0, 0
        self.waiting = 0

    async def repaired(self, position):
        self.asked.append(position)
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        await asyncio.sleep(0.001)
        self.waiting -= 1
        if self.answers.get(position) is None:
            raise RepairAwaited(position)
        if self.answers[position]:
            self.damaged.discard(position)
        return self.answers[position]

    def whole(self):
        """Return which records can be read."""
        self.runs += 1
        for position in self.damaged:
            note_damage(position)
        return set(self.answers) - self.damaged

    def up_to_first(self):
        """Stop at the first damaged record."""
        self.runs += 1
        for position in sorted(self.damaged):
            raise DamagedRecord(position, "its body fails the CRC")
        return "all"


async def test_records_are_asked_for_at_one_time_and_the_work_runs_once_more():
    replicas = Replicas(_1=True, _2=True, _3=False)
    reads = RepairedReads(asyncio.to_thread, replicas.repaired)
    assert await reads(replicas.whole) == {1, 2}
    assert (sorted(replicas.asked), replicas.runs, replicas.most) == ([1, 2, 3], 2, 3)


async def test_work_that_stops_at_each_damaged_record_gets_to_its_end():
    replicas = Replicas(_1=True, _2=True, _3=True)
    assert await RepairedReads(asyncio.to_thread, replicas.repaired)(replicas.up_to_first) == "all"
    assert (replicas.asked, replicas.runs) == ([1, 2, 3], 4)


async def test_work_that_meets_very_many_damaged_records_asks_for_some_at_a_time():
    count = 3 * ASKED_MAX
    replicas = Replicas(**{f"_{number}": True for number in range(count)})
    reads = RepairedReads(asyncio.to_thread, replicas.repaired)
    assert await reads(replicas.whole) == set(range(count))
    assert (replicas.asked, replicas.runs, replicas.most) == (list(range(count)), 2, ASKED_MAX)


async def test_where_no_replica_answers_the_work_waits_for_one_time_only():
    replicas = Replicas(**{f"_{number}": None for number in range(3 * ASKED_MAX)})
    reads = RepairedReads(asyncio.to_thread, replicas.repaired)
    with pytest.raises(RepairAwaited):
        await reads(replicas.whole)
    assert len(replicas.asked) == ASKED_MAX


async def test_many_records_that_no_replica_has_hide_none_that_one_has():
    replicas = Replicas(**{f"_{number}": number == 2 * ASKED_MAX for number in range(3 * ASKED_MAX)})
    assert await RepairedReads(asyncio.to_thread, replicas.repaired)(replicas.whole) == {2 * ASKED_MAX}
    assert replicas.runs == 2


async def test_work_is_refused_while_a_replica_may_have_a_record_unless_it_leaves_it_out():
    replicas = Replicas(_1=True, _2=None)
    reads = RepairedReads(asyncio.to_thread, replicas.repaired)
    with pytest.raises(RepairAwaited, match="position 2"):
        await reads(replicas.whole)
    assert await reads.leaving_out(replicas.whole) == {1}


async def test_a_record_that_stays_damaged_is_asked_for_once():
    """As one that its unit names wrongly: it is whole everywhere."""
    replicas = Replicas(_1=True)

    async def repaired(position):
        replicas.asked.append(position)
        return True

    with pytest.raises(DamagedRecord):
        await RepairedReads(asyncio.to_thread, repaired)(replicas.up_to_first)
    assert (replicas.asked, replicas.runs) == ([1], 2)


async def test_a_store_without_replicas_reads_once_and_notes_nothing():
    replicas = Replicas(_1=True)
    reads = RepairedReads(asyncio.to_thread, None)
    assert await reads(replicas.whole) == set()
    with pytest.raises(DamagedRecord):
        await reads.leaving_out(replicas.up_to_first)
    assert (replicas.runs, replicas.asked) == (2, [])


def test_damage_that_other_work_meets_is_not_noted():
    note_damage(7)
    noted = noting(lambda: noting(note_damage, 8).damaged)
    assert (noted.result, noted.damaged) == ({8}, set())
    note_damage(9)
    assert noted.damaged == set()


async def test_a_reader_that_may_not_wait_asks_until_the_repair_has_ended_in_vain():
    replicas = Replicas(_1=True, _2=False, _3=None)
    requests = RepairRequests(replicas.repaired)
    assert [requests.may_come(position) for position in (1, 2, 3, 1)] == [True] * 4
    assert replicas.asked == []
    await ended(requests)
    assert sorted(replicas.asked) == [1, 2, 3]
    assert [requests.may_come(position) for position in (2, 3)] == [False, True]
    await ended(requests)
    assert sorted(replicas.asked) == [1, 2, 3, 3]


async def ended(requests):
    async with asyncio.timeout(20):
        while requests._running:
            await asyncio.sleep(0.001)
