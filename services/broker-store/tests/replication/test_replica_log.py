"""The log of a replica: a follower's files are the leader's byte for byte, and a cut survives any crash."""

import errno
import threading
from random import Random

import pytest
from replica_disk import LOG, RUNS, SMALL, Confirms, content, marked, open_log, put, record, same, send, ship

from broker_store.log.commit_log.commit_log import LogState
from broker_store.log.commit_log.scan import scan_records
from broker_store.log.errors import (
    DamagedRecord,
    DiskFull,
    LogStopped,
    LogUnreadable,
    PositionNotVisible,
    PositionRemoved,
)  # fmt: skip
from broker_store.log.files.real_files import RealFiles
from broker_store.log.files.simulated_files import Crashed, Fault, SimulatedFiles
from broker_store.log.settings import LogSettings
from broker_store.replication.fresh_bytes import Piece
from broker_store.replication.replica_log import CutBelowConfirm, ReplicaLog, ReplicaPart, ShipmentMisfit
from gantry_chassis.machine.environment import machine
from gantry_wire.records.message_record import build_blank


@pytest.fixture
def disk():
    return SimulatedFiles()


def copied(leader: ReplicaLog, files, bytes_max: int = 2000) -> ReplicaLog:
    follower = open_log(files)
    while ship(leader, follower, bytes_max):
        pass
    follower.sync()
    return follower


@pytest.mark.parametrize("bytes_max", [1, 300, 2000, 100_000])
@pytest.mark.parametrize("is_fresh", [True, False])
def test_a_follower_has_the_leaders_files_over_several_segments(disk, bytes_max, is_fresh):
    leader = open_log(disk)
    for number in range(30):
        send(
            leader,
            *[bytes([number]) * (number * 37 % 900) for _ in range(1 + number % 4)],
            as_one=number % 3 == 0,
        )
    leader.sync()
    other = SimulatedFiles()
    follower = copied(leader if is_fresh else open_log(disk.killed()), other, bytes_max)
    assert len(leader.segments) > 4
    assert follower.written_end == follower.durable_end == leader.written_end
    assert content(other) == content(disk)


def test_what_one_write_held_is_one_piece(disk):
    leader = open_log(disk)
    start = send(leader, b"first")
    end = send(leader, b"a" * 100, b"b" * 200, b"c" * 300)
    piece = leader.fresh.gather(start, 1)
    assert (piece.position, piece.end) == (start, end)
    assert piece.data == leader.read_runs(start, 100_000).data


def test_a_piece_ends_with_the_blank_of_its_segment_and_holds_nothing_behind_it(disk):
    leader = open_log(disk)
    start = send(leader, b"x" * 2500)
    send(leader, b"small", b"y" * 2500)
    piece = leader.fresh.gather(start, 100_000)
    assert piece.end == 4096
    blank_start = piece.position + len(piece.data) - 8
    assert piece.data[-8:] == build_blank(4096 - blank_start)
    assert leader.read_runs(start, 100_000) == piece
    assert leader.read_runs(blank_start, 100) == Piece(blank_start, piece.data[-8:], 4096)


def test_records_that_belong_together_are_never_parted(disk):
    leader = open_log(disk, preamble=False)
    send(leader, *[b"x" * 100] * 5, as_one=True)
    one = leader.written_end
    alone = send(leader, b"alone")
    end = send(leader, *[b"y" * 100] * 5, as_one=True)
    leader.sync()
    reopened = open_log(disk.killed(), preamble=False)
    found = {reopened.read_runs(0, size).end for size in range(1, end + 10)}
    assert found == {one, alone, end}
    assert reopened.read_runs(alone, 1).end == end


def test_a_preamble_alone_is_not_shipped(disk):
    leader = open_log(disk)
    with pytest.raises(Exception, match="do not fit behind the preamble"):
        put(leader, b"x" * 3950)
    leader.write()
    assert leader.written_end > leader.shippable_end == 0
    assert leader.fresh.gather(0, 1000) is None
    end = send(leader, b"behind it")
    assert leader.shippable_end == end
    piece = leader.fresh.gather(0, 1)
    assert piece.end == end
    assert leader.read_runs(0, 1) == piece


def test_a_start_ends_the_log_where_the_next_start_does(disk):
    """A run that is torn behind a preamble takes the preamble with it: alone, the next start would drop it."""
    log = open_log(disk)
    send(log, b"x" * 100, b"y" * 100, b"z" * 100, as_one=True)
    log.sync()
    disk.flip(f"{LOG}/{0:020d}", log.written_end - 50, 1)
    ends = []
    for _ in range(3):
        log = open_log(disk)
        ends.append(log.written_end)
    assert ends == [0, 0, 0]


def test_an_empty_log_begins_where_its_replica_says_and_takes_shipments_from_there(disk):
    leader = open_log(disk)
    while leader.written_end < 20_000:
        send(leader, b"x" * 900)
    other = SimulatedFiles()
    follower = open_log(other, begin=8192)
    assert (follower.min_position, follower.end, follower.written_end, follower.durable_end) == (8192,) * 4
    assert (follower.visible_end, follower.visible_below, follower.shippable_end) == (8192,) * 3
    while ship(leader, follower):
        pass
    follower.sync()
    assert same(disk, other, leader.written_end, 8192)
    again = open_log(other.killed(), begin=8192)
    assert (again.min_position, again.written_end) == (8192, leader.written_end)
    with pytest.raises(CutBelowConfirm):
        follower.cut_back(8000)
    follower.cut_back(8192)
    assert open_log(other.killed(), begin=8192).written_end == 8192


def test_a_leader_takes_over_a_log_that_begins_later(disk):
    log = open_log(disk, begin=8192)
    end = send(log, b"x" * 100)
    log.sync()
    assert [segment.start for segment in log.segments] == [8192]
    assert log.read_runs(8192, 5000).end == end


def test_segments_below_the_beginning_are_of_another_log(disk):
    send(open_log(disk), b"x")
    with pytest.raises(LogUnreadable, match="begins at 0, and the log of this replica at 8192"):
        open_log(disk, begin=8192)


def test_damaged_bytes_are_never_shipped(disk):
    leader = open_log(disk, preamble=False)
    ends = [send(leader, b"x" * 100) for _ in range(3)]
    leader.sync()
    disk.flip(f"{LOG}/{0:020d}", ends[0] + 120, 1)
    assert leader.read_runs(0, 1000).end == ends[0]
    with pytest.raises(DamagedRecord):
        leader.read_runs(ends[0], 1000)


def test_nothing_is_read_outside_of_the_log(disk):
    leader = open_log(disk)
    for _ in range(4):
        send(leader, b"x" * 3000)
    leader.sync()
    end = leader.written_end
    for position in (end, end + 1):
        with pytest.raises(PositionNotVisible):
            leader.read_runs(position, 100)
    leader.set_confirm(end)
    leader.set_visible(end, end)
    leader.drop_first_segment()
    with pytest.raises(PositionRemoved):
        leader.read_runs(0, 100)


@pytest.mark.parametrize("preamble", [True, False])
def test_a_follower_that_takes_over_continues_at_the_same_place(disk, preamble):
    """Its files are those that the leader would have written."""
    leader = open_log(disk, preamble=preamble)
    for number in range(7):
        send(leader, b"x" * (500 + number))
    other = SimulatedFiles()
    follower = open_log(other, preamble=preamble)
    while ship(leader, follower):
        pass
    for _ in range(5):
        assert send(leader, b"y" * 900) == send(follower, b"y" * 900)
    leader.sync()
    follower.sync()
    assert content(other) == content(disk)


def test_a_leader_begins_a_segment_behind_a_shipped_blank(disk):
    leader = open_log(disk)
    send(leader, b"x" * 3500)
    send(leader, b"y" * 3000)
    other = SimulatedFiles()
    follower = open_log(other)
    while follower.written_end < 4096:
        ship(leader, follower, 1)
    assert follower.written_end == follower.end == 4096
    assert send(follower, b"y" * 3000) == leader.written_end
    assert content(other) == content(disk)


def test_a_blank_without_unused_bytes_ends_its_segment(disk):
    leader = open_log(disk, preamble=False)
    start = send(leader, b"x" * 1000)
    send(leader, b"y" * (4096 - 8 - start - 92))
    assert leader.room == 0
    send(leader, b"z")
    other = SimulatedFiles()
    follower = copied(leader, other, 100_000)
    leader.sync()
    assert content(other) == content(disk)
    assert follower.written_end == leader.written_end


@pytest.mark.parametrize(
    ("end", "data"),
    [
        (4090, record(0, b"x" * 3998)), (4096, record(0, b"x" * 4004)), (5000, record(0, b"x" * 4908)),
        (200, record(0, b"x" * 100)), (100, b"\0" * 100), (4096, build_blank(4095)), (4096, b"x" * 100), (8, build_blank(8)),
        (8192, record(0, b"x") + build_blank(8192 - 93)),
    ],
)  # fmt: skip
def test_bytes_that_do_not_fit_the_segments_are_refused_and_nothing_is_written(disk, end, data):
    follower = open_log(disk)
    with pytest.raises(ShipmentMisfit, match=r"do not fit a segment of 4096"):
        follower.append_shipped(0, end, data)
    assert follower.written_end == 0
    assert follower.state is LogState.RUNNING


def test_a_full_disk_takes_a_shipment_back_and_a_later_one_is_taken():
    leader = open_log(SimulatedFiles(), preamble=False)
    for _ in range(5):
        send(leader, b"x" * 1500)
    other = SimulatedFiles(capacity=4096)
    follower = open_log(other, preamble=False)
    while follower.written_end < 4096:
        ship(leader, follower, 1)
    with pytest.raises(DiskFull):
        ship(leader, follower, 1)
    assert (follower.end, follower.written_end, len(follower.segments)) == (4096, 4096, 1)
    other.capacity = 1 << 30
    follower.mark_disk_full(full=False)
    while ship(leader, follower, 1):
        pass
    assert same(leader._files, other, leader.written_end)


def test_a_failed_write_stops_the_log(disk):
    leader = open_log(SimulatedFiles())
    send(leader, b"x")
    follower = open_log(disk)
    disk.faults.append(Fault("pwrite", errno.EIO))
    with pytest.raises(LogStopped):
        ship(leader, follower)
    with pytest.raises(LogStopped):
        ship(leader, follower)
    with pytest.raises(LogStopped):
        follower.cut_back(0)


def ends_of(log: ReplicaLog) -> list[int]:
    ends, position = [0], 0
    while position < log.shippable_end:
        position = log.read_runs(position, 1).end
        ends.append(position)
    return ends


def long_log(files, confirms=None) -> ReplicaLog:
    log = open_log(files, confirms)
    for number in range(14):
        send(log, bytes([65 + number]) * (700 + number))
    log.sync()
    return log


def test_a_log_can_be_cut_at_every_end_and_continues_there():
    ends = ends_of(long_log(SimulatedFiles()))
    assert {4096, 8192} < set(ends)
    for end in ends:
        files, other = SimulatedFiles(), SimulatedFiles()
        log = long_log(files)
        log.cut_back(end)
        assert (log.end, log.written_end, log.durable_end, log.shippable_end) == (end,) * 4
        assert not any(any(file[max(end - int(name), 0) :]) for name, file in content(files).items())
        source = long_log(other)
        source.cut_back(end)
        send(source, b"another" * 100)
        while ship(source, log, 1):
            pass
        log.sync()
        source.sync()
        assert content(files) == content(other)


def test_a_cut_is_durable_on_return():
    for end in ends_of(long_log(SimulatedFiles())):
        files = SimulatedFiles()
        log = long_log(files)
        log.cut_back(end)
        for state in files.crash_states(50):
            assert open_log(state).written_end == end


def test_a_crash_in_a_cut_leaves_a_beginning_of_the_old_log():
    whole = SimulatedFiles()
    old_ends = ends_of(long_log(whole))
    for end in (old_ends[1], old_ends[4], 4096, old_ends[-2]):
        step, is_over, found = 0, False, set()
        while not is_over:
            files = SimulatedFiles()
            log = long_log(files)
            files.crash_after = step
            try:
                log.cut_back(end)
                is_over = True
            except Crashed:
                step += 1
            for state in files.crash_states(30, seed=step):
                reopened = open_log(state)
                assert end <= reopened.written_end
                assert reopened.written_end in old_ends
                assert same(state, whole, reopened.written_end)
                found.add(reopened.written_end)
        assert {end, old_ends[-1]} <= found
        assert step > 2


def test_a_cut_below_the_confirm_offset_is_refused_and_changes_nothing(disk):
    log = long_log(disk)
    ends = ends_of(log)
    log.set_confirm(ends[5])
    before = content(disk)
    with pytest.raises(CutBelowConfirm, match=str(ends[5])):
        log.cut_back(ends[4])
    assert content(disk) == before
    log.cut_back(ends[5])
    assert log.written_end == ends[5]


def test_the_confirm_offset_of_a_replica_is_not_raised_by_a_start(disk):
    confirms = Confirms()
    log = long_log(disk, confirms)
    ends = ends_of(log)
    log.set_confirm(ends[3])
    reopened = open_log(disk.killed(), confirms)
    assert (reopened.written_end, reopened.confirm) == (ends[-1], ends[3])
    reopened.cut_back(ends[3])
    assert reopened.written_end == ends[3]


def test_a_cut_waits_for_a_running_sync_and_counts(disk):
    log = long_log(disk)
    ends = ends_of(log)
    order = []
    sync = log._sync_written

    def slow_sync():
        order.append("sync begins")
        end = sync()
        order.append("sync ends")
        return end

    log._sync_written = slow_sync
    cutter = threading.Thread(target=lambda: (log.cut_back(ends[2]), order.append("cut")))
    with log._syncing:
        cutter.start()
        cutter.join(0.05)
        assert cutter.is_alive()
    cutter.join()
    assert log.sync() == ends[2]
    assert order == ["cut", "sync begins", "sync ends"]
    assert log.cuts == 1


def test_a_failed_cut_stops_the_log(disk):
    log = long_log(disk)
    disk.faults.append(Fault("truncate", errno.EIO))
    with pytest.raises(LogStopped):
        log.cut_back(ends_of(log)[1])
    assert log.state is LogState.STOPPED


def test_files_made_ahead_are_removed_by_a_cut_and_made_again(disk):
    sizes = LogSettings(segment_bytes=4096, prezero_bytes=8192, prezero_slice_bytes=4096)
    log = open_log(disk, settings=sizes)
    for _ in range(4):
        send(log, b"x" * 1500)
    while log.prezero.zero_slice():
        pass
    assert len(disk.listdir(LOG)) > len(log.segments)
    end = ends_of(log)[1]
    log.cut_back(end)
    assert len(disk.listdir(LOG)) == 1
    while log.prezero.zero_slice():
        pass
    for _ in range(4):
        send(log, b"y" * 1500)
        while log.prezero.zero_slice():
            pass
    log.sync()
    reopened = open_log(disk.killed(), settings=sizes)
    assert reopened.written_end == log.written_end
    assert [segment.file.is_at(segment.path) for segment in log.segments] == [True] * len(log.segments)


def test_cuts_and_the_thread_that_zeroes_ahead_do_not_disturb_each_other(tmp_path):
    sizes = LogSettings(segment_bytes=64 * 1024, prezero_bytes=128 * 1024, prezero_slice_bytes=4096)
    files = RealFiles()
    directory = str(tmp_path)
    log = ReplicaLog(
        files, directory, sizes, lambda _: [], lambda *_: None, Confirms(), ReplicaPart(RUNS, 1000, 0)
    )
    log.start_at(0, 0)
    log.prezero.start(machine().make_thread)
    rng, ends = Random(1), [0]
    for number in range(300):
        ends.append(send(log, bytes([number % 251 + 1]) * rng.randrange(9000)))
        if rng.random() < 0.1:
            end = rng.choice(ends[-15:])
            log.cut_back(end)
            ends = [each for each in ends if each <= end]
    log.sync()
    log.close()
    again = ReplicaLog(
        files, directory, sizes, lambda _: [], lambda *_: None, Confirms(), ReplicaPart(RUNS, 1000, 0)
    )
    again.start_at(ends[-1], 0)
    position, found = 0, [0]
    while position < ends[-1]:
        piece = again.read_runs(position, 4096)
        scanned = []
        scan_records(piece.data, position, 0, scanned)
        found += [start + size for start, size, *_ in scanned]
        position = piece.end
    assert (position, ends) == (ends[-1], found)
    assert len(again.segments) > 5
    assert [segment.file.is_at(segment.path) for segment in again.segments] == [True] * len(again.segments)


def test_runs_are_marked_as_recovery_reads_them():
    assert RUNS.together(marked(3)) == 3
    assert RUNS.together(b"") == 1
    assert SMALL.segment_bytes == 4096
