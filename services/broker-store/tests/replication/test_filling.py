"""Holes of a log are filled from another replica: every range until it is whole, and what nobody has is asked for again later."""

import asyncio
import errno
from itertools import count

import pytest
from replica_disk import LOG, SMALL, Confirms, content, open_log, send, ship
from test_repairing import Now

from broker_store.log.errors import DamagedRecord, DiskFull, PositionNotVisible
from broker_store.log.files.simulated_files import Crashed, SimulatedFiles
from broker_store.log.log_range import LogRange
from broker_store.replication import filling
from broker_store.replication.filling import FillCalls, Filling
from broker_store.replication.frames import PART_BYTES_MAX
from broker_store.replication.messages import HaveBytes, WantBytes
from broker_store.replication.repairing import RepairCalls, Repairing

SIZE = SMALL.segment_bytes


@pytest.fixture
def anyio_backend():
    return "asyncio"


def path_of(start):
    return f"{LOG}/{start:020d}"


class Pair:
    """Two replicas with the same log of several segments, and questions of the first to the second."""

    def __init__(self, records=100):
        self.disk, self.other_disk = SimulatedFiles(), SimulatedFiles()
        self.confirms = Confirms()
        self.log, self.other = open_log(self.disk, self.confirms), open_log(self.other_disk)
        self.ends = [0, *(send(self.other, bytes([65 + number % 20]) * 200) for number in range(records))]
        while ship(self.other, self.log):
            pass
        for log in self.log, self.other:
            log.sync()
            log.set_confirm(log.durable_end)
            log.set_visible(log.durable_end, log.durable_end)
        self.sources, self.ms, self.wants, self.numbers = ["b"], 1000, [], 0
        self.failures = []

    def open_again(self):
        """Start again after a kill."""
        self.disk = self.disk.killed()
        self.log = open_log(self.disk, self.confirms)
        self.log.add_segments(self.log.make_missing_segments())

    def filling(self, *ranges):
        calls = RepairCalls(
            lambda _: self.sources, self.answer, self.session, lambda: self.ms, Now(), self.failures.append
        )
        self.repairing = Repairing(self.log, calls)
        want = self.repairing.want
        return Filling(self.log, ranges, FillCalls(want, lambda _: self.sources, Now(), 0))

    def session(self):
        self.numbers += 1
        return self.numbers

    def answer(self, peer, want):
        self.wants.append(want.position)
        try:
            data = self.other.read_confirmed(want.position, min(want.size, 1000))
        except PositionNotVisible:
            data = b""
        asyncio.get_running_loop().call_soon(self.arrive, peer, HaveBytes(want.session, want.position, data))

    def arrive(self, peer, have):
        try:
            self.repairing.received(peer, have)
        except Crashed:
            self.running.cancel()

    async def fill(self, held):
        """Fill. False: the power failed meanwhile."""
        self.running = asyncio.ensure_future(self.filling(held).run())
        try:
            await self.running
        except (Crashed, asyncio.CancelledError):
            return False
        return True


def zeroed(pair, start, end):
    """Zero a range of the first log."""
    for first in range(start - start % SIZE, end, SIZE):
        low, high = max(start, first), min(end, first + SIZE)
        pair.disk.write_at(path_of(first), low - first, bytes(high - low))
    return LogRange(start, end)


@pytest.mark.anyio
async def test_a_zeroed_range_over_several_segments_is_filled():
    pair = Pair()
    before = content(pair.disk)
    held = zeroed(pair, pair.ends[7], pair.ends[70])
    assert held.end - held.start > 3 * SIZE
    filling = pair.filling(held)
    assert filling.lost_bytes == held.end - held.start
    await filling.run()
    assert content(pair.disk) == content(pair.other_disk) == before
    assert filling.lost_bytes == 0
    for cut in pair.disk.crash_states(10):
        assert content(cut) == before


@pytest.mark.anyio
async def test_several_ranges_are_filled_and_what_lies_between_is_not_asked_for():
    pair = Pair()
    before = content(pair.disk)
    ranges = [zeroed(pair, pair.ends[at], pair.ends[at + 2]) for at in (3, 40, 80)]
    await pair.filling(*ranges).run()
    assert content(pair.disk) == before
    assert pair.wants == [held.start for held in ranges]


@pytest.mark.anyio
async def test_a_missing_segment_and_one_of_garbage_are_filled_with_the_zeros_behind_their_blank():
    pair = Pair()
    before = content(pair.disk)
    pair.disk.remove(path_of(SIZE))
    pair.disk.remove(path_of(2 * SIZE))
    pair.disk.sync_dir(LOG)
    pair.disk.write_at(path_of(3 * SIZE), 0, b"\xa5" * SIZE)
    pair.open_again()
    await pair.filling(LogRange(SIZE, 4 * SIZE)).run()
    assert content(pair.disk) == content(pair.other_disk) == before


@pytest.mark.anyio
async def test_a_replica_that_is_killed_anywhere_in_the_middle_of_a_fill_continues():
    pair = Pair(40)
    before = content(pair.disk)
    held = LogRange(SIZE, 3 * SIZE)
    lives = 0
    for at in count(1):
        zeroed(pair, *held)
        pair.disk.remove(path_of(SIZE))
        pair.disk.sync_dir(LOG)
        pair.log = open_log(pair.disk, pair.confirms)
        pair.disk.crash_after = at
        try:
            pair.log.add_segments(pair.log.make_missing_segments())
            is_filled = await pair.fill(held)
        except Crashed:
            is_filled = False
        if is_filled:
            break
        lives += 1
        pair.disk = pair.disk.crash_state(5, at)
        pair.open_again()
        assert await pair.fill(held)
        assert content(pair.disk) == before
    assert lives > 10


@pytest.mark.anyio
async def test_it_waits_for_a_replica_that_can_be_asked():
    pair = Pair()
    before = content(pair.disk)
    held = zeroed(pair, pair.ends[7], pair.ends[9])
    pair.sources = []
    running = asyncio.ensure_future(pair.filling(held).run())
    await asyncio.sleep(0.01)
    assert pair.wants == []
    pair.sources = ["b"]
    await running
    assert content(pair.disk) == before


@pytest.mark.anyio
async def test_what_nobody_has_stays_is_reported_once_and_asked_for_again_while_other_ranges_are_filled(
    monkeypatch, capsys
):
    pair = Pair()
    before = content(pair.disk)
    stays = zeroed(pair, pair.ends[7], pair.ends[9])
    goes = zeroed(pair, pair.ends[50], pair.ends[60])
    asked = pair.disk.content(path_of(0))[stays.start : stays.end]
    other = pair.other_disk.content(path_of(0))[stays.start : stays.end]
    pair.other_disk.write_at(path_of(0), stays.start, asked)
    monkeypatch.setattr(filling, "AGAIN_SECONDS", 0.01)
    held = pair.filling(stays, goes)
    running = asyncio.ensure_future(held.run())
    for _ in range(20):
        await asyncio.sleep(0.01)
        pair.ms += 61_000
        pair.repairing.tick()
    assert held.lost_bytes == stays.end - stays.start
    assert pair.wants.count(stays.start) >= 3
    assert pair.wants.count(goes.start) == 1
    assert capsys.readouterr().out.count("no other replica has what this log has lost") == 1
    pair.other_disk.write_at(path_of(0), stays.start, other)
    for _ in range(20):
        await asyncio.sleep(0.01)
        pair.ms += 61_000
        pair.repairing.tick()
    await running
    assert content(pair.disk) == before


@pytest.mark.anyio
async def test_ranges_that_retention_deletes_meanwhile_are_whole():
    pair = Pair()
    held = zeroed(pair, pair.ends[2], pair.ends[9])
    pair.sources = []
    running = asyncio.ensure_future(pair.filling(held).run())
    await asyncio.sleep(0.01)
    assert pair.log.drop_below(4 * SIZE) > 1
    pair.sources = ["b"]
    pair.ms += 6000
    await asyncio.sleep(0.3)
    pair.repairing.tick()
    await asyncio.wait_for(running, 5)
    assert pair.failures == []


@pytest.mark.anyio
async def test_nothing_above_the_confirm_offset_is_written():
    pair = Pair()
    held = zeroed(pair, pair.ends[60], pair.log.written_end)
    pair.log.confirm = pair.ends[80]
    running = asyncio.ensure_future(pair.filling(LogRange(held.start, pair.ends[80])).run())
    await asyncio.wait_for(running, 5)
    at = pair.ends[80]
    rest = pair.disk.content(path_of(at - at % SIZE))[at % SIZE :]
    assert rest.count(0) == len(rest)


def test_no_room_for_a_record_leaves_the_log_as_it_was():
    pair = Pair()
    zeroed(pair, pair.ends[7], pair.ends[9])
    data = pair.other.read_confirmed(pair.ends[7], PART_BYTES_MAX)
    segment = pair.log.segments[0]

    def full(*_):
        raise OSError(errno.ENOSPC, "full")

    whole, segment.file.pwrite = segment.file.pwrite, full
    with pytest.raises(DiskFull):
        pair.log.repair(pair.ends[7], data)
    segment.file.pwrite = whole
    assert pair.log.repair(pair.ends[7], data).records == 2


@pytest.mark.anyio
async def test_a_replica_that_is_asked_for_a_record_that_is_damaged_here_too_repairs_its_own():
    pair = Pair()
    zeroed(pair, pair.ends[7], pair.ends[9])
    sent = []
    other = Repairing(
        pair.log,
        RepairCalls(lambda _: ["c"], lambda *what: sent.append(what), pair.session, lambda: 0, Now(), print),
    )
    whole = pair.other.read_confirmed(pair.ends[7], 1000)
    other.asked("b", WantBytes(91, pair.ends[7], 100))
    await asyncio.sleep(0)
    ((peer, want),) = sent
    assert (peer, want.position) == ("c", pair.ends[7])
    other.asked("c", WantBytes(92, pair.ends[7], 100))  # it has lost it, too, and has nobody else
    await asyncio.sleep(0)
    assert sent.pop() == ("c", HaveBytes(92, pair.ends[7], b""))
    other.received("c", HaveBytes(want.session, want.position, whole))
    for _ in range(4):
        await asyncio.sleep(0)
    assert sent.pop() == ("b", HaveBytes(91, pair.ends[7], whole[:100]))


@pytest.mark.anyio
async def test_a_replica_that_is_asked_for_the_rest_of_a_record_takes_it_for_no_damage():
    pair, sent = Pair(), []
    other = Repairing(
        pair.log,
        RepairCalls(lambda _: ["c"], lambda *what: sent.append(what), pair.session, lambda: 0, Now(), print),
    )
    for position in pair.ends[7], pair.ends[7] + 100, pair.ends[20]:
        other.asked("b", WantBytes(1, position, 100))
        await asyncio.sleep(0)
    assert [(peer, have.position, len(have.data)) for peer, have in sent] == [
        ("b", pair.ends[7], 100), ("b", pair.ends[7] + 100, 100), ("b", pair.ends[20], 100),
    ]  # fmt: skip


@pytest.mark.anyio
async def test_a_replica_that_is_asked_for_what_nobody_has_says_so():
    pair, sent, now = Pair(), [], [0]
    zeroed(pair, pair.ends[7], pair.ends[9])
    other = Repairing(
        pair.log,
        RepairCalls(
            lambda _: [], lambda *what: sent.append(what), pair.session, lambda: now[0], Now(), print
        ),
    )
    other.asked("b", WantBytes(1, pair.ends[7], 100))
    await asyncio.sleep(0)
    assert sent == []
    now[0] += 6000
    other.tick()
    await asyncio.sleep(0)
    assert sent == [("b", HaveBytes(1, pair.ends[7], b""))]


def test_a_range_is_never_filled_with_a_damaged_copy():
    pair = Pair()
    zeroed(pair, pair.ends[7], pair.ends[9])
    pair.other_disk.flip(path_of(0), pair.ends[7] + 100, 1)
    before = content(pair.disk)
    with pytest.raises(DamagedRecord):
        pair.log.repair(pair.ends[7], pair.other.read_confirmed(pair.ends[7], PART_BYTES_MAX))
    assert content(pair.disk) == before
