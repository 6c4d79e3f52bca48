"""Damaged records are replaced by those of another replica: whole ones, below what is confirmed, and nothing else."""

import asyncio
import errno

import pytest
from replica_disk import LOG, SMALL, content, open_log, send, ship
from shell_group import Group

from broker_store.log.commit_log.commit_log import LogState
from broker_store.log.errors import DamagedRecord, LogStopped, PositionNotVisible, PositionRemoved
from broker_store.log.files.simulated_files import SimulatedFiles
from broker_store.replication.messages import HaveBytes, Session, WantBytes
from broker_store.replication.repairing import AGAIN_MS, ANSWER_MS, REPAIR_MS, RepairCalls, Repairing
from broker_store.replication.replica_log import Repaired

FIRST = f"{LOG}/{0:020d}"


@pytest.fixture
def anyio_backend():
    return "asyncio"


def pair(count=5, body=100, *, is_confirmed=True):
    """Two logs with the same records; return the leader's disk and log, the follower's, and where the records end."""
    disks = SimulatedFiles(), SimulatedFiles()
    leader, follower = (open_log(files, preamble=False) for files in disks)
    ends = [send(leader, bytes([65 + number % 20]) * body) for number in range(count)]
    while ship(leader, follower):
        pass
    for log in (leader, follower):
        log.sync()
        if is_confirmed:
            log.set_confirm(log.durable_end)
            log.set_visible(log.durable_end, log.durable_end)
    return disks[0], leader, disks[1], follower, ends


def filled(count=40):
    return pair(count, 200)


@pytest.mark.parametrize("at", [0, 4, 8, 30, 120], ids=["size", "magic", "crc", "position", "body"])
def test_a_damaged_record_is_replaced_wherever_its_damage_is(at):
    disk, log, other_disk, other, ends = pair()
    disk.flip(FIRST, ends[1] + at, 0x40)
    with pytest.raises(DamagedRecord):
        log.read_runs(ends[1], 2000)
    assert log.repair(ends[1], other.read_confirmed(ends[1], 1 << 20)) == Repaired(ends[4], 1, True)
    assert content(disk) == content(other_disk)
    for cut in disk.crash_states(10):
        assert content(cut) == content(other_disk)


def test_records_behind_the_first_are_repaired_with_it_and_whole_ones_are_not_written():
    disk, log, other_disk, other, ends = pair()
    for end in ends[0], ends[2]:
        disk.flip(FIRST, end + 120, 1)
    disk.trace.clear()
    assert log.repair(ends[0], other.read_confirmed(ends[0], 1 << 20)).records == 2
    assert [operation for operation, path in disk.trace if path == FIRST and operation != "pread"] == [
        "pwrite",
        "pwrite",
        "sync",
    ]
    assert content(disk) == content(other_disk)


def test_a_damaged_blank_is_replaced():
    disk, log, other_disk, other, ends = filled()
    blank = max(end for end in ends if end < SMALL.segment_bytes)
    disk.flip(FIRST, blank + 1, 0xFF)
    assert log.repair(blank, other.read_confirmed(blank, 1 << 20)) == Repaired(blank + 8, 1, True)
    assert content(disk) == content(other_disk)


def test_bytes_of_a_damaged_copy_are_never_written():
    disk, log, other_disk, other, ends = pair()
    for files in disk, other_disk:
        files.flip(FIRST, ends[1] + 120, 1)
    before = content(disk)
    with pytest.raises(DamagedRecord, match="of another replica"):
        log.repair(ends[1], other.read_confirmed(ends[1], 1 << 20))
    assert content(disk) == before


def test_bytes_that_begin_inside_of_a_record_are_never_written():
    disk, log, _, other, ends = pair()
    before = content(disk)
    with pytest.raises(DamagedRecord):
        log.repair(ends[1] + 10, other.read_confirmed(ends[1] + 10, 1 << 20))
    assert content(disk) == before


def test_nothing_at_or_above_the_confirm_offset_is_given_or_written():
    disk, log, _, other, ends = pair(is_confirmed=False)
    for each in log, other:
        each.set_confirm(ends[2])
    with pytest.raises(PositionNotVisible):
        other.read_confirmed(ends[2], 100)
    data = disk.content(FIRST)[ends[1] : ends[4]]
    assert other.read_confirmed(ends[1], 1 << 20) == data[: ends[2] - ends[1]]
    disk.flip(FIRST, ends[3] + 120, 1)
    before = content(disk)
    assert log.repair(ends[1], data) == Repaired(ends[2], 0, True)
    assert log.repair(ends[3], data[ends[3] - ends[1] :]).records == 0
    assert content(disk) == before


def test_nothing_is_repaired_in_deleted_segments():
    _, log, _, other, _ = filled()
    log.drop_first_segment()
    with pytest.raises(PositionRemoved):
        log.repair(0, other.read_confirmed(0, 4096))


def test_a_disk_that_does_not_take_a_repair_stops_the_log():
    disk, log, _, other, ends = pair()
    disk.flip(FIRST, ends[1] + 120, 1)
    log.segments[0].file.sync = broken
    with pytest.raises(LogStopped):
        log.repair(ends[1], other.read_confirmed(ends[1], 1 << 20))
    assert log.state is LogState.STOPPED


def broken():
    raise OSError(errno.EIO, "broken disk")


# --- who is asked, and how often


class Now:
    """Workers whose calls end at once."""

    def run(self, function, *arguments):
        future = asyncio.get_running_loop().create_future()
        try:
            future.set_result(function(*arguments))
        except Exception as error:  # noqa: BLE001 - as a thread passes it on
            future.set_exception(error)
        return future

    def close(self, *, wait=True): ...


class Asker:
    """One replica that repairs, and what it sends."""

    def __init__(self, log, sources=("b", "c")):
        self.ms, self.sent, self.failures, self.numbers = 1000, [], [], 0
        self.sources = sources
        self.repairing = Repairing(
            log,
            RepairCalls(
                lambda _position: self.sources, lambda peer, message: self.sent.append((peer, message)), self.session,
                lambda: self.ms, Now(), self.failures.append,
            ),
        )  # fmt: skip

    def session(self):
        self.numbers += 1
        return Session("a.1", self.numbers)

    async def answer(self, data, peer=None):
        asked, want = self.sent[-1]
        self.repairing.received(peer or asked, HaveBytes(want.session, want.position, data))
        await asyncio.sleep(0)
        await asyncio.sleep(0)


@pytest.fixture
def damaged():
    disk, log, _, other, ends = pair()
    disk.flip(FIRST, ends[1] + 120, 1)
    return log, other, ends


@pytest.mark.anyio
async def test_a_repair_asks_the_next_replica_where_one_has_nothing_or_is_damaged_too(damaged):
    log, other, ends = damaged
    asker = Asker(log, ("b", "c", "d"))
    done = asker.repairing.want(ends[1])
    await asker.answer(b"")
    await asker.answer(log.read_confirmed(ends[1], 1 << 20))
    await asker.answer(other.read_confirmed(ends[1], 1 << 20))
    assert [peer for peer, _ in asker.sent] == ["b", "c", "d"]
    assert done.result() is True
    assert asker.repairing.records == 1


@pytest.mark.anyio
async def test_a_repair_ends_at_once_where_every_replica_has_answered_in_vain(damaged):
    log, _, ends = damaged
    asker = Asker(log)
    done = asker.repairing.want(ends[1])
    await asker.answer(b"")
    assert not done.done()
    await asker.answer(b"")
    assert done.result() is False
    assert asker.repairing.may_come(ends[1]) is False


@pytest.mark.anyio
async def test_a_repair_waits_for_the_replica_that_has_not_answered_and_may_come_later(damaged):
    log, _, ends = damaged
    asker = Asker(log)
    done = asker.repairing.want(ends[1])
    asker.ms += ANSWER_MS + 1
    asker.repairing.tick()
    assert not done.done()
    asker.ms += REPAIR_MS
    asker.repairing.tick()
    assert done.result() is False
    assert asker.repairing.may_come(ends[1]) is True
    assert asker.repairing.may_come(log.confirm) is False, "no replica is asked for what is not confirmed"


@pytest.mark.anyio
async def test_repairs_of_records_that_came_with_another_one_end_with_it(damaged):
    log, other, ends = damaged
    asker = Asker(log)
    done = [asker.repairing.want(ends[number]) for number in (1, 2, 3)]
    await asker.answer(other.read_confirmed(ends[1], ends[3] - ends[1]))
    assert [one.done() and one.result() for one in done] == [True, True, False]
    assert [want.position for _, want in asker.sent] == [ends[1], ends[3]]


@pytest.mark.anyio
async def test_where_no_record_begins_both_replicas_say_so_and_the_next_repair_follows(damaged):
    log, other, ends = damaged
    asker = Asker(log, ("b",))
    nowhere, done = asker.repairing.want(ends[1] + 10), asker.repairing.want(ends[1])
    await asker.answer(other.read_confirmed(ends[1] + 10, 100))
    assert nowhere.result() is False
    await asker.answer(other.read_confirmed(ends[1], 1 << 20))
    assert done.result() is True


@pytest.mark.anyio
async def test_a_reader_whose_record_another_repair_has_replaced_reads_it_again_at_once(damaged):
    log, other, ends = damaged
    asker = Asker(log, ("b",))
    asker.repairing.want(ends[1], is_exact=True)
    await asker.answer(other.read_confirmed(ends[1], 1 << 20))
    late = asker.repairing.want(ends[1], is_exact=True)
    await asker.answer(other.read_confirmed(ends[1], ends[2] - ends[1]))
    assert late.result() is True
    assert asker.repairing.records == 1


@pytest.mark.anyio
async def test_a_replica_that_ends_leaves_no_reader_waiting(damaged):
    log, _, ends = damaged
    asker = Asker(log)
    before = asker.repairing.want(ends[1])
    asker.repairing.close()
    assert [before.result(), asker.repairing.want(ends[1]).result()] == [False, False]
    assert asker.repairing.may_come(ends[1]) is True


@pytest.mark.anyio
async def test_late_and_foreign_answers_change_nothing(damaged):
    log, other, ends = damaged
    asker = Asker(log)
    done = asker.repairing.want(ends[1])
    _, first = asker.sent[-1]
    data = other.read_confirmed(ends[1], 1 << 20)
    await asker.answer(data, peer="x")
    asker.ms += ANSWER_MS + 1
    asker.repairing.tick()
    assert [peer for peer, _ in asker.sent] == ["b", "c"]
    asker.repairing.received("b", HaveBytes(first.session, first.position, data))
    await asyncio.sleep(0)
    assert not done.done()
    await asker.answer(data)
    assert done.result() is True


@pytest.mark.anyio
async def test_a_repair_ends_after_its_time_and_is_not_tried_again_at_once(damaged):
    log, _, ends = damaged
    asker = Asker(log, ())
    done = asker.repairing.want(ends[1])
    asker.ms += REPAIR_MS + 1
    asker.repairing.tick()
    assert done.result() is False
    asker.sources = ("b",)
    assert asker.repairing.want(ends[1]).result() is False
    assert asker.sent == []
    asker.ms += AGAIN_MS
    asker.repairing.want(ends[1])
    assert [peer for peer, _ in asker.sent] == ["b"]


@pytest.mark.anyio
async def test_a_record_longer_than_an_answer_is_put_together(damaged):
    log, other, ends = damaged
    asker = Asker(log, ("b",))
    done = asker.repairing.want(ends[1])
    for _ in range(20):
        _, want = asker.sent[-1]
        await asker.answer(other.read_confirmed(want.position, 30))
        if done.done():
            break
    assert done.result() is True
    assert {peer for peer, _ in asker.sent} == {"b"}


@pytest.mark.anyio
async def test_damage_that_readers_met_is_repaired_once_for_all_of_them(damaged):
    log, other, ends = damaged
    log.first_read.end = log.written_end
    for _ in range(3):
        with pytest.raises(DamagedRecord):
            log.read(ends[1], ends[2] - ends[1])
    asker = Asker(log, ("b",))
    asker.repairing.tick()
    assert len(asker.sent) == 1
    await asker.answer(other.read_confirmed(ends[1], 1 << 20))
    assert log.read(ends[1], ends[2] - ends[1]) == other.read(ends[1], ends[2] - ends[1])


@pytest.mark.anyio
async def test_what_is_not_confirmed_or_was_deleted_is_not_asked_for(damaged):
    log, _, _ = damaged
    asker = Asker(log)
    assert asker.repairing.want(log.confirm).result() is False
    assert asker.repairing.want(-1).result() is False
    assert asker.sent == []


@pytest.mark.anyio
async def test_an_answer_has_confirmed_bytes_or_none(damaged):
    _, other, ends = damaged
    asker = Asker(other)
    session = Session("b.1", 1)
    for position in (ends[1], other.confirm):
        asker.repairing.asked("b", WantBytes(session, position, 50))
        await asyncio.sleep(0)
    (_, some), (_, none) = asker.sent
    assert some.data == other.read_confirmed(ends[1], 50)
    assert none == HaveBytes(session, other.confirm, b"")


@pytest.mark.anyio
async def test_a_log_that_stops_ends_the_replica(damaged):
    log, other, ends = damaged
    log.segments[0].file.sync = broken
    asker = Asker(log)
    done = asker.repairing.want(ends[1])
    await asker.answer(other.read_confirmed(ends[1], 1 << 20))
    assert done.result() is False
    assert [type(error) for error in asker.failures] == [LogStopped]


# --- whole replicas


async def formed():
    group = Group("abc")
    for node in group.nodes.values():
        node.start()
    await group.until(group.is_whole)
    return group


@pytest.mark.anyio
async def test_a_leader_repairs_what_a_replica_that_comes_back_needs():
    group = await formed()
    away = next(node for node in group.nodes.values() if not node.is_leader)
    away.crash(power=False)
    start = away.log.written_end
    for _ in range(30):
        group.sends(3)
        await group.clock.run(20)
    leader = group.leader
    await group.until(lambda: leader.log.confirm == leader.log.written_end)
    segment = leader.log.segment_at(start)
    leader.files.flip(segment.path, start - segment.start + 100, 1)
    leader.log.fresh = type(leader.log.fresh)(0, SMALL.segment_bytes)
    away.start()
    await group.until(group.is_whole)
    assert leader.shell.repairing.records >= 1
    group.check_identical()
