"""The only writer of the log: positions, segments, and what readers may see."""

import threading

import pytest

from broker_store.log.errors import (
    DamagedRecord,
    PositionNotVisible,
    PositionRemoved,
    RecordTooLarge,
)
from broker_store.log.files.real_files import RealFiles
from broker_store.log.files.simulated_files import SimulatedFiles
from broker_store.log.settings import LogSettings
from gantry_chassis.machine.environment import machine
from gantry_wire.records.message_record import BLANK, MAGIC_BLANK, scan_records


def test_records_lie_back_to_back_at_the_reserved_positions(disk, small, open_log, put, commit):
    log = open_log(disk, small)
    places = [put(log, body) for body in (b"a", b"bb", b"ccc")]
    assert places == [0, 93, 187]
    assert log.end == 282
    assert log.written_end == 0
    commit(log)
    content = disk.read_bytes("/log/" + "0" * 20)
    assert [record.position for record in scan_records(content, 0)] == places
    assert len(content) == 4096
    assert not any(content[282:])


def test_a_batch_is_one_vectored_write_and_one_sync(disk, small, open_log, put, commit):
    log = open_log(disk, small)
    put(log, b"first")
    commit(log)
    before = len(disk.trace)
    for _ in range(10):
        put(log, b"x")
    commit(log)
    assert [name for name, _ in disk.trace[before:]] == ["pwrite", "sync"]


def test_nothing_to_write_writes_nothing(disk, small, open_log):
    log = open_log(disk, small)
    before = len(disk.trace)
    log.write()
    assert log.sync() == 0
    assert len(disk.trace) == before


def test_a_record_that_would_not_leave_room_for_the_blank_goes_to_the_next_segment(
    disk, small, open_log, put, commit
):
    log = open_log(disk, small)
    put(log, b"." * (4096 - 92 - 8))
    assert log.end == 4088
    second = put(log, b"next")
    assert second == 4096
    commit(log)
    first = disk.read_bytes("/log/" + "0" * 20)
    assert BLANK.unpack_from(first, 4088) == (8, MAGIC_BLANK)
    assert [segment.start for segment in log.segments] == [0, 4096]
    assert ("sync_dir", "/log") in disk.trace


def test_a_batch_that_crosses_a_segment_is_synced_in_both(disk, small, open_log, put):
    log = open_log(disk, small)
    for _ in range(3):
        put(log, b"." * 1500)
    log.write()
    before = len(disk.trace)
    assert log.sync() == log.end
    synced = [path for name, path in disk.trace[before:] if name == "sync"]
    assert synced == [f"/log/{0:020d}", f"/log/{4096:020d}"]


def test_each_segment_begins_with_its_preamble_which_is_reported(
    disk, small, build_at, open_log, put, commit
):
    reported = []

    def preamble(position):
        first = build_at("SYS", 0, 0, position, b"one")
        return [first, build_at("SYS", 0, 1, position + len(first), b"two")]

    log = open_log(
        disk,
        small,
        preamble=preamble,
        on_preamble=lambda position, record: reported.append((position, len(record))),
    )
    place = put(log, b"x")
    assert reported == [(0, 97), (97, 97)]
    assert place == 194
    commit(log)
    records = list(scan_records(log.read(0, log.end), 0))
    assert [record.body for record in records] == [b"one", b"two", b"x"]


def test_a_record_too_large_for_a_segment_is_refused_and_leaves_nothing(disk, small, build_at, open_log):
    log = open_log(disk, small, preamble=lambda position: [build_at("S", 0, 0, position, b"." * 200)])
    with pytest.raises(RecordTooLarge):
        log.reserve(4096)
    assert (log.end, log.segments) == (0, [])
    with pytest.raises(RecordTooLarge, match="preamble"):
        log.reserve(4000)
    big = open_log(
        SimulatedFiles(), small, preamble=lambda position: [build_at("S", 0, 0, position, b"." * 5000)]
    )
    with pytest.raises(RecordTooLarge, match="preamble"):
        big.reserve(100)


def test_a_reservation_that_is_not_filled_is_our_bug(disk, small, open_log):
    log = open_log(disk, small)
    log.reserve(100)
    log.put(b"too short")
    with pytest.raises(AssertionError):
        log.write()


def test_readers_see_nothing_above_the_visible_end_nor_below_the_minimum(disk, small, open_log, put, commit):
    log = open_log(disk, small)
    position = put(log, b"x")
    log.write()
    log.sync()
    for read in (log.read, log.read_nowait):
        with pytest.raises(PositionNotVisible):
            read(position, 93)
    log.set_visible(93, 93)
    assert log.read(0, 93) == log.read_nowait(0, 93) == log.read_record(0)
    for _ in range(4):
        put(log, b"." * 2000)
    commit(log)
    path = log.drop_first_segment()
    assert path == "/log/" + "0" * 20
    assert log.min_position == 4096
    with pytest.raises(PositionRemoved):
        log.read(0, 93)


def test_a_read_that_must_wait_for_the_disk_says_so(disk, small, open_log, put, commit):
    log = open_log(disk, small)
    put(log, b"x")
    commit(log)
    disk.is_cold = True
    assert log.read_nowait(0, 93) is None


def test_a_stretch_over_two_segments_is_read_as_one(disk, small, open_log, put, commit):
    log = open_log(disk, small)
    for _ in range(3):
        put(log, b"." * 1900)
    commit(log)
    both = log.read(0, log.end)
    assert len(both) == log.end
    assert log.read_nowait(0, log.end) is None


def test_read_record_finds_the_size_and_refuses_what_is_none(disk, small, open_log, put, commit):
    log = open_log(disk, small)
    put(log, b"abc")
    put(log, b"def")
    commit(log)
    assert log.read_record(95)[88:91] == b"def"
    with pytest.raises(DamagedRecord):
        log.read_record(50)
    log.visible_end -= 1
    with pytest.raises(DamagedRecord, match="visible"):
        log.read_record(95)


def test_a_stretch_over_two_segments_is_checked_in_both(disk, small, open_log, put, commit):
    log = open_log(disk, small)
    for _ in range(3):
        put(log, b"." * 1900)
    commit(log)
    again = open_log(disk, small)
    again.show(log.end)
    assert again.read(0, log.end) == log.read(0, log.end)
    assert again.read_nowait(4096, log.end - 4096) is not None
    disk.flip(f"/log/{4096:020d}", 1000, 1)
    third = open_log(disk, small)
    third.show(log.end)
    with pytest.raises(DamagedRecord):
        third.read_nowait(4096, log.end - 4096)


def test_a_position_in_a_missing_segment_is_damage(disk, small, open_log, put, commit):
    log = open_log(disk, small)
    for _ in range(6):
        put(log, b"." * 1900)
    commit(log)
    log.segments = [segment for segment in log.segments if segment.start != 4096]
    with pytest.raises(DamagedRecord, match="missing"):
        log.read(4096, 100)
    assert log.segment_at(4096) is None
    assert log.segment_at(-1) is None


def test_visible_and_confirm_never_pass_what_they_promise(disk, small, open_log, put):
    log = open_log(disk, small)
    put(log, b"x")
    log.write()
    with pytest.raises(AssertionError):
        log.set_confirm(93)  # not durable yet
    log.sync()
    log.set_confirm(93)
    with pytest.raises(AssertionError):
        log.set_visible(94, 94)


def test_the_real_disk_takes_the_same_calls(tmp_path, build_at, open_log, put, commit):
    sizes = LogSettings(segment_bytes=64 * 1024, prezero_bytes=32 * 1024, prezero_slice_bytes=4096)
    log = open_log(RealFiles(), sizes, directory=str(tmp_path / "log"))
    log.prezero.start(machine().make_thread)
    expected = []
    for number in range(300):
        expected.append(put(log, b"%03d" % number * 300, offset=number))
        if number % 7 == 0:
            commit(log)
    commit(log)
    records = [record for place in expected for record in scan_records(log.read_record(place), place)]
    assert [record.queue_offset for record in records] == list(range(300))
    assert len(log.segments) > 4
    log.close()
    again = open_log(RealFiles(), sizes, directory=str(tmp_path / "log"))
    again.show(log.end)
    assert again.read_record(expected[-1]) == build_at("T", 0, 299, expected[-1], b"299" * 300)
    again.close()


def test_a_sync_does_not_answer_for_what_another_one_has_still_in_work(disk, small, open_log, put):
    log = open_log(disk, small)
    put(log, b"x")
    log.write()
    file = log.segments[0].file
    sync, entered, release = file.sync, threading.Event(), threading.Event()

    def slow_sync():
        entered.set()
        assert release.wait(10)
        sync()

    file.sync = slow_sync
    ends = []
    threads = [threading.Thread(target=lambda: ends.append(log.sync())) for _ in range(2)]
    threads[0].start()
    assert entered.wait(10)
    threads[1].start()  # as a checkpoint during the flush of a batch
    threads[1].join(0.1)
    assert ends == []
    release.set()
    for thread in threads:
        thread.join()
    assert ends == [log.end, log.end]


def test_syncing_in_a_thread_during_writes_never_claims_more_than_was_written(tmp_path, open_log, put):
    log = open_log(
        RealFiles(), LogSettings(segment_bytes=16 * 1024, prezero_bytes=0), directory=str(tmp_path / "log")
    )
    wrong = []
    done = threading.Event()

    def syncing():
        while not done.is_set():
            before = log.written_end
            if log.sync() < before:
                wrong.append(before)

    thread = threading.Thread(target=syncing)
    thread.start()
    for number in range(500):
        put(log, b"." * (number % 400))
        log.write()
    done.set()
    thread.join()
    assert wrong == []
    assert log.sync() == log.end
    log.close()
