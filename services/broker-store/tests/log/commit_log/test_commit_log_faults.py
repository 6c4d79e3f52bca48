"""Disk errors in the only writer of the log: what is taken back, what stops, and what a crash may then leave."""

import errno

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker_store.log.commit_log.commit_log import LogState
from broker_store.log.commit_log.segment import load_segments
from broker_store.log.errors import (
    DiskFull,
    LogStopped,
    NoDescriptorLeft,
)
from broker_store.log.files.simulated_files import Crashed, Fault, SimulatedFiles
from gantry_wire.records.message_record import scan_records


def test_enospc_takes_the_whole_batch_back_across_segments_and_zeroes_it(small, open_log, put, commit):
    disk = SimulatedFiles(capacity=4096)
    log = open_log(disk, small)
    put(log, b"kept")
    end = commit(log)
    for body in (b"." * 2000, b"." * 1500, b"." * 900):
        put(log, body)
    with pytest.raises(DiskFull):
        log.write()
    assert log.state is LogState.DISK_FULL
    assert (log.end, log.written_end) == (end, end)
    content = disk.read_bytes("/log/" + "0" * 20)
    assert not any(content[end:])
    assert len(content) == 4096
    assert [segment.start for segment in log.segments] == [0]
    assert put(log, b"small acks continue") == end  # the caller decides who may still write
    commit(log)
    log.mark_disk_full(full=False)
    assert log.state is LogState.RUNNING
    disk.capacity = 1 << 20
    put(log, b"." * 3800)
    commit(log)
    assert len(list(scan_records(log.read(0, end), 0))) == 1


def test_enospc_in_the_first_batch_leaves_an_empty_log_whose_segment_still_gets_its_preamble(
    small, build_at, open_log, put, commit
):
    disk = SimulatedFiles(capacity=0)
    log = open_log(disk, small, preamble=lambda position: [build_at("SYS", 0, 0, position, b"offsets")])
    put(log, b"refused")
    with pytest.raises(DiskFull):
        log.write()
    assert (log.end, log.segments) == (0, [])
    disk.capacity = 1 << 20
    put(log, b"taken")
    commit(log)
    assert [record.body for record in scan_records(log.read(0, log.end), 0)] == [b"offsets", b"taken"]


def test_no_crash_brings_back_a_batch_that_was_refused(small, open_log, put, commit):
    disk = SimulatedFiles(capacity=8192)
    log = open_log(disk, small)
    put(log, b"kept")
    commit(log)
    for number in range(6):
        put(log, b"%d" % number * 1500)
    with pytest.raises(DiskFull):
        log.write()
    put(log, b"0" * 1500)  # of the size of what was refused: old bytes would fit behind it
    log.write()
    for state in disk.crash_states(300):
        content = state.read_bytes("/log/" + "0" * 20)
        assert not any(content[log.end :])
        following = state.read_bytes(f"/log/{4096:020d}")
        assert following is None or not any(following)


@pytest.mark.parametrize("has_spare", [False, True])
def test_a_crash_while_a_batch_is_taken_back_leaves_a_log_that_opens(small, open_log, put, commit, has_spare):
    step, is_over, is_full = 0, False, False
    while not is_over:
        disk = SimulatedFiles(capacity=8192)
        log = open_log(disk, small)
        put(log, b"kept")
        kept = commit(log)
        if has_spare:
            log.prezero._make_spare(4096)
        for number in range(6):
            put(log, b"%d" % number * 1500)
        disk.crash_after = step
        try:
            log.write()
        except DiskFull:
            is_over = True
        except Crashed:
            step += 1
        for state in disk.crash_states(20, seed=step):
            segments = load_segments(state, "/log", small.segment_bytes)
            assert segments[0].file.pread(kept, 0) == disk.content(segments[0].path)[:kept]
        is_full = is_full or ("truncate", segments[0].path) in disk.trace
    assert is_full
    assert step > 4


def test_enospc_when_the_next_segment_is_made_reserves_nothing(disk, small, open_log, put, commit):
    log = open_log(disk, small)
    first = put(log, b"." * 3000)
    disk.faults.append(Fault("open", errno.ENOSPC))
    with pytest.raises(DiskFull):
        put(log, b"." * 3000)
    assert log.state is LogState.DISK_FULL
    commit(log)
    assert log.read_record(first)[88:91] == b"..."


def test_a_next_segment_without_a_descriptor_is_refused_and_retried(disk, small, open_log, put, commit):
    log = open_log(disk, small)
    first = put(log, b"." * 3000)
    disk.faults.append(Fault("open", errno.EMFILE))
    with pytest.raises(NoDescriptorLeft):
        put(log, b"-" * 3000)
    assert log.state is LogState.RUNNING
    second = put(log, b"-" * 3000)
    commit(log)
    assert log.read_record(first)[88:91] == b"..."
    assert log.read_record(second)[88:91] == b"---"


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE])
def test_no_descriptor_for_the_name_of_a_new_segment_holds_the_flush_and_heals_by_itself(
    disk, small, error, open_log, put, commit
):
    log = open_log(disk, small)
    first = put(log, b"." * 3000)
    commit(log)
    durable_end = log.durable_end
    second = put(log, b"-" * 3000)
    log.write()
    disk.faults += [Fault("sync_dir", error), Fault("sync_dir", error)]
    for _ in range(2):
        with pytest.raises(NoDescriptorLeft):
            log.sync()
        assert (log.state, log.durable_end) == (LogState.RUNNING, durable_end)
    names = sum(1 for operation, _ in disk.trace if operation == "sync_dir")
    assert log.sync() == log.written_end
    assert sum(1 for operation, _ in disk.trace if operation == "sync_dir") == names + 1
    log.set_visible(log.durable_end, log.durable_end)
    assert [log.read_record(position)[88:91] for position in (first, second)] == [b"...", b"---"]


def commit_two_large(log, put):
    for _ in range(2):
        put(log, b"." * 2000)
    log.write()


@pytest.mark.parametrize("operation", ["pwrite", "open"])
def test_another_error_of_a_write_stops_the_log_for_ever(disk, small, operation, open_log, put, commit):
    log = open_log(disk, small)
    put(log, b"kept")
    end = commit(log)
    disk.faults.append(Fault(operation, errno.EIO))
    with pytest.raises(LogStopped):
        commit_two_large(log, put)
    assert log.state is LogState.STOPPED
    assert "injected" in log.stop_reason
    for attempt in (lambda: log.reserve(100), log.sync):
        with pytest.raises(LogStopped):
            attempt()
    log.mark_disk_full(full=False)
    assert log.state is LogState.STOPPED
    assert len(log.read(0, end)) == end  # reads continue


def test_a_batch_placed_before_the_stop_is_not_written(disk, small, open_log, put):
    log = open_log(disk, small)
    put(log, b"x")
    disk.faults.append(Fault("sync", errno.EIO))
    log.write()
    put(log, b"y")
    with pytest.raises(LogStopped):
        log.sync()
    with pytest.raises(LogStopped):
        log.write()


def test_a_failed_take_back_stops_the_log(small, open_log, put, commit):
    disk = SimulatedFiles(capacity=4096)
    log = open_log(disk, small)
    put(log, b"." * 3000)
    commit(log)
    put(log, b"." * 3000)
    disk.faults.append(Fault("truncate", errno.EIO))
    with pytest.raises(LogStopped):
        log.write()


def test_an_error_met_meanwhile_by_the_thread_that_zeroes_is_not_answered_as_durable(
    disk, small, open_log, put
):
    log = open_log(disk, small)
    put(log, b"x")
    log.write()
    file = log.segments[0].file
    sync = file.sync

    def sync_while_the_other_thread_fails():
        sync()
        log._stop_on(OSError(errno.EIO, "bad block"))

    file.sync = sync_while_the_other_thread_fails
    with pytest.raises(LogStopped, match="bad block"):
        log.sync()
    assert log.durable_end == 0


def test_a_confirm_offset_that_cannot_be_noted_stops_the_log(disk, small, open_log, put):
    log = open_log(disk, small)
    put(log, b"x")
    log.write()
    end = log.sync()

    def fail(_position):
        raise OSError(errno.EIO, "checkpoint")

    log._confirm_file.write_confirm = fail
    with pytest.raises(LogStopped):
        log.set_confirm(end)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batches=st.lists(st.lists(st.integers(0, 1200), min_size=1, max_size=6), max_size=12),
    room=st.integers(1, 8),
)
def test_any_batches_on_a_disk_of_any_size_leave_exactly_the_acknowledged_records(
    small, batches, room, open_log, put, commit
):
    disk = SimulatedFiles(capacity=room * 4096)
    log = open_log(disk, small)
    acked = []
    for batch in batches:
        placed = []
        try:
            for size in batch:
                position = put(log, b"." * size)
                placed.append((position, size))
            commit(log)
            acked += placed
        except DiskFull:
            assert log.end == log.written_end
    for position, size in acked:
        (record,) = scan_records(log.read_record(position), position)
        assert len(record.body) == size
    total = sum(
        1
        for segment in log.segments
        for _ in scan_records(disk.read_bytes(segment.path)[: max(log.end - segment.start, 0)], segment.start)
    )
    assert total == len(acked)
