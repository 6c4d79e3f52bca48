"""Units of a queue: in memory and in files, searched, flushed, cut, and repeated without harm."""

import errno

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker_store.log.consume_queue import ConsumeQueue
from broker_store.log.errors import LogUnreadable
from broker_store.log.file_pool import FilePool
from broker_store.log.settings import LogSettings
from broker_store.log.simulated_files import Fault, SimulatedFiles
from gantry_wire.units import CONSUME_QUEUE_BLANK, CONSUME_QUEUE_UNIT

SIZES = LogSettings(segment_bytes=4096, queue_file_units=16, prezero_bytes=0)
DIRECTORY = "/cq/T/0"
EVERYTHING = 1 << 62


def open_queue(disk, **load):
    queue = ConsumeQueue(FilePool(disk, open_max=2), DIRECTORY, SIZES)
    if load:
        queue.load(**load)
    return queue


def fill(queue, count, first=0):
    for offset in range(first, first + count):
        assert queue.append(offset, 100 * offset, 100, offset * 7) == 0


def units(queue, offset=None, count=10_000):
    return list(
        CONSUME_QUEUE_UNIT.iter_unpack(queue.read(queue.min_offset if offset is None else offset, count))
    )


def test_units_are_readable_before_they_are_flushed(disk):
    queue = open_queue(disk)
    fill(queue, 3)
    assert units(queue) == [(0, 100, 0), (100, 100, 7), (200, 100, 14)]
    assert disk.trace == []
    assert not queue.is_flushed


def test_reads_cross_files_and_memory_and_stop_at_the_end(disk):
    queue = open_queue(disk)
    fill(queue, 100)
    queue.flush()
    fill(queue, 5, first=100)
    assert len(queue._tail) // 20 <= 37
    assert units(queue) == [(100 * n, 100, 7 * n) for n in range(105)]
    assert units(queue, 30, 50) == [(100 * n, 100, 7 * n) for n in range(30, 80)]
    assert queue.read(105, 1) == queue.read(200, 1) == queue.read(-1, 1) == queue.read(3, 0) == b""
    assert queue.read_nowait(0, 40) == queue.read(0, 40)
    disk.is_cold = True
    assert queue.read_nowait(0, 40) is None
    assert queue.read_nowait(100, 5) == queue.read(100, 5)


def test_files_have_full_size_and_are_named_by_the_byte_of_their_first_unit(disk):
    queue = open_queue(disk)
    fill(queue, 40)
    queue.sync()
    assert disk.listdir(DIRECTORY) == [f"{byte:020d}" for byte in (0, 320, 640)]
    assert {disk.size(f"{DIRECTORY}/{name}") for name in disk.listdir(DIRECTORY)} == {320}
    content = disk.read_bytes(f"{DIRECTORY}/{640:020d}")
    assert content[:20] == CONSUME_QUEUE_UNIT.pack(3200, 100, 224)
    assert not any(content[160:])


def test_a_synced_queue_survives_a_power_cut_whole(disk):
    queue = open_queue(disk)
    fill(queue, 40)
    queue.sync()
    (state,) = list(disk.crash_states(100))
    assert units(open_queue(state, log_min=0, limit=EVERYTHING)) == units(queue)


def test_appending_again_changes_nothing(disk):
    queue = open_queue(disk)
    fill(queue, 20)
    before = units(queue)
    fill(queue, 20)
    queue.flush()
    fill(queue, 20)
    assert units(queue) == before


def test_a_gap_is_filled_with_units_that_name_nothing(disk):
    queue = open_queue(disk)
    fill(queue, 2)
    assert queue.append(5, 1000, 100, 1) == 3
    hole = (0, 0x7FFFFFFF, 0)
    assert units(queue) == [(0, 100, 0), (100, 100, 7), hole, hole, hole, (1000, 100, 1)]


def test_an_offset_that_cannot_be_true_is_left_out(disk):
    queue = open_queue(disk)
    fill(queue, 2)
    assert queue.append(2**50, 1000, 100, 1) == 1
    assert queue.append(11, 1000, 100, 1) == 1  # ten records of at least 91 bytes do not fit into 900
    assert queue.max_offset == 2
    empty = open_queue(SimulatedFiles())
    assert empty.append(2**50, 1000, 100, 1) == 1
    assert empty.max_offset == 0


def test_a_record_whose_offset_was_taken_by_a_hole_gets_its_unit_after_all(disk):
    queue = open_queue(disk)
    fill(queue, 2)
    queue.append(4, 1000, 100, 1)
    queue.append(2, 1100, 100, 2)
    queue.append(4, 1200, 100, 3)  # a real unit stays
    assert units(queue, 2) == [(1100, 100, 2), (0, 0x7FFFFFFF, 0), (1000, 100, 1)]


def test_a_queue_that_a_damaged_first_record_let_begin_too_late_begins_earlier_after_all(disk):
    for flushed in (False, True):
        queue = open_queue(type(disk)())
        assert queue.append(8, 5000, 100, 1) == 0
        if flushed:
            queue.flush()
            queue._forget_tail()
        queue.append(1, 5100, 100, 2)
        queue.append(2, 5200, 100, 3)
        assert (queue.min_offset, queue.max_offset) == (1, 9)
        assert units(queue)[:2] == [(5100, 100, 2), (5200, 100, 3)]
        assert units(queue)[7] == (5000, 100, 1)
    late = open_queue(type(disk)())
    late.append(20, 5000, 100, 1)
    late.append(3, 5100, 100, 1)  # its file was never made
    assert late.min_offset == 20


def test_a_damaged_record_uses_up_its_offset_unless_that_cannot_be_true(disk):
    queue = open_queue(disk)
    fill(queue, 2)
    assert queue.leave_hole(2, 200) == 1
    assert queue.leave_hole(1, 100) == 0
    assert queue.leave_hole(2**40, 200) == 2
    assert queue.max_offset == 3
    assert units(queue, 2) == [(0, 0x7FFFFFFF, 0)]


def test_plausibility_looks_behind_holes(disk):
    queue = open_queue(disk)
    fill(queue, 1)
    queue.leave_hole(1, 100)
    assert queue.append(3, 400, 100, 0) == 1
    assert queue.append(100, 500, 100, 0) == 1
    assert queue.max_offset == 4
    holes_only = open_queue(type(disk)())
    holes_only.start_at(3)
    holes_only.leave_hole(3, 400)
    assert holes_only.append(6, 400, 100, 0) == 2
    assert holes_only.max_offset == 7


def test_an_empty_queue_starts_anywhere_with_its_file_filled_before(disk):
    queue = open_queue(disk)
    queue.start_at(37)
    queue.append(37, 5000, 100, 1)
    queue.sync()
    assert (queue.min_offset, queue.max_offset) == (37, 38)
    content = disk.read_bytes(f"{DIRECTORY}/{640:020d}")
    assert content[:120] == CONSUME_QUEUE_BLANK * 5 + CONSUME_QUEUE_UNIT.pack(5000, 100, 1)
    again = open_queue(disk, log_min=0, limit=EVERYTHING)
    assert (again.min_offset, again.max_offset) == (37, 38)
    again.start_at(10)
    assert again.max_offset == 38
    again.start_at(41)
    assert units(again) == [(5000, 100, 1)] + [(0, 0x7FFFFFFF, 0)] * 3


def test_many_skipped_offsets_are_filled_without_growing_memory(disk):
    queue = open_queue(disk)
    fill(queue, 1)
    queue.start_at(9000)
    assert queue.max_offset == 9000
    assert len(queue._tail) <= 32 * 20
    assert queue.position_after(0) is None


def test_searching_by_position_passes_over_holes(disk):
    queue = open_queue(disk)
    for offset in range(64):
        if offset % 5 == 3:
            queue.leave_hole(offset, 100 * offset)
        else:
            queue.append(offset, 100 * offset, 100, 0)
    for position in range(0, 6500, 50):
        real = [offset for offset in range(64) if offset % 5 != 3 and 100 * offset >= position]
        expected = real[0] if real else 64
        assert queue.offset_at(position) in (expected, expected - 1)
        assert queue.position_after(position - 1) == (100 * expected if real else None)


def test_delete_before_raises_the_minimum_and_removes_whole_files_only(disk):
    queue = open_queue(disk)
    fill(queue, 40)
    queue.sync()
    queue.delete_before(1750)
    assert queue.min_offset == 18
    assert disk.listdir(DIRECTORY) == [f"{byte:020d}" for byte in (320, 640)]
    queue.delete_before(EVERYTHING)
    assert (queue.min_offset, queue.max_offset) == (40, 40)
    assert disk.listdir(DIRECTORY) == [f"{640:020d}"]
    assert queue.read(39, 1) == b""
    queue.append(40, 9000, 100, 0)
    assert units(queue) == [(9000, 100, 0)]
    again = open_queue(disk, log_min=8000, limit=EVERYTHING)
    assert (again.min_offset, again.max_offset) == (40, 40)


def test_truncating_drops_units_and_later_files_and_zeroes_behind(disk):
    queue = open_queue(disk)
    fill(queue, 40)
    queue.truncate_to_position(1800)
    assert queue.max_offset == 18
    queue.sync()
    assert disk.listdir(DIRECTORY) == [f"{byte:020d}" for byte in (0, 320)]
    assert not any(disk.read_bytes(f"{DIRECTORY}/{320:020d}")[40:])
    fill(queue, 10, first=18)
    assert units(queue) == [(100 * n, 100, 7 * n) for n in range(28)]


def test_truncating_everything_leaves_an_empty_queue(disk):
    queue = open_queue(disk)
    fill(queue, 20)
    queue.truncate_to_position(0)
    assert (queue.min_offset, queue.max_offset) == (0, 0)
    fill(queue, 1)
    assert units(queue) == [(0, 100, 0)]


def test_punched_units_name_nothing_and_the_others_stay(disk):
    queue = open_queue(disk)
    fill(queue, 20)
    assert queue.punch(300, 501) == 3
    assert [n for n, unit in enumerate(units(queue)) if unit[1] == 0x7FFFFFFF] == [3, 4, 5]
    queue.sync()
    assert units(open_queue(disk, log_min=0, limit=EVERYTHING)) == units(queue)


def test_loading_after_a_crash_takes_units_below_the_limit_and_returns_the_rest_as_proof(disk):
    queue = open_queue(disk)
    fill(queue, 40)
    queue.sync()
    again = open_queue(disk)
    leftover = again.load(0, 2000, lambda *_: True)
    assert again.max_offset == 20
    assert leftover == queue.read(20, 20)
    assert disk.listdir(DIRECTORY) == [f"{byte:020d}" for byte in (0, 320)]
    assert again.load(0, 0, lambda *_: True) != b""


def test_loading_steps_back_over_units_that_the_log_does_not_prove(disk):
    queue = open_queue(disk)
    fill(queue, 10)
    queue.leave_hole(10, 1000)
    queue.sync()
    again = open_queue(disk)
    again.load(0, EVERYTHING, lambda _position, _size, offset: offset < 7)
    assert again.max_offset == 11, "a hole at the end needs no proof"
    disk.write_at(f"{DIRECTORY}/{0:020d}", 200, bytes(20))
    again = open_queue(disk)
    again.load(0, EVERYTHING, lambda _position, _size, offset: offset < 7)
    assert again.max_offset == 7


def test_a_missing_file_in_the_middle_ends_the_queue_there(disk):
    queue = open_queue(disk)
    fill(queue, 48)
    queue.sync()
    disk.remove(f"{DIRECTORY}/{320:020d}")
    assert open_queue(disk, log_min=0, limit=EVERYTHING).max_offset == 16


def test_a_short_file_ends_the_queue_where_it_ends_and_gets_its_size_again(disk):
    queue = open_queue(disk)
    fill(queue, 40)
    queue.sync()
    disk.open(f"{DIRECTORY}/{320:020d}").truncate(110)
    again = open_queue(disk, log_min=0, limit=EVERYTHING)
    assert again.max_offset == 21
    assert disk.size(f"{DIRECTORY}/{320:020d}") == 320
    fill(again, 40)
    again.sync()
    assert units(open_queue(disk, log_min=0, limit=EVERYTHING)) == units(queue)


@pytest.mark.parametrize(("start", "size"), [(0, 640), (100, 320)])
def test_files_of_another_size_are_refused_not_cut(disk, start, size):
    disk.make_dirs(DIRECTORY)
    disk.open(f"{DIRECTORY}/{start:020d}", size)
    with pytest.raises(LogUnreadable, match="mappedFileSizeConsumeQueue"):
        open_queue(disk, log_min=0, limit=EVERYTHING)


def test_a_failed_flush_keeps_the_units_in_memory_and_can_be_repeated(disk):
    queue = open_queue(disk)
    fill(queue, 40)
    disk.faults.append(Fault("pwrite", errno.ENOSPC, skip=1))
    with pytest.raises(OSError, match="injected"):
        queue.flush()
    assert len(units(queue)) == 40
    queue.sync()
    assert units(open_queue(disk, log_min=0, limit=EVERYTHING)) == [(100 * n, 100, 7 * n) for n in range(40)]


def test_destroying_removes_the_files(disk):
    queue = open_queue(disk)
    fill(queue, 40)
    queue.sync()
    queue.destroy()
    assert disk.listdir(DIRECTORY) == []
    assert not disk.exists(DIRECTORY)


def test_what_a_snapshot_needs_of_the_files(disk):
    queue = open_queue(disk)
    fill(queue, 20)
    queue.flush()
    assert queue.file_parts() == [
        (f"{DIRECTORY}/{0:020d}", f"{0:020d}", None),
        (f"{DIRECTORY}/{320:020d}", f"{320:020d}", 80),
    ]


def test_ten_thousand_queues_need_few_descriptors(disk):
    pool = FilePool(disk, open_max=3)
    queues = [ConsumeQueue(pool, f"/cq/T/{number}", SIZES) for number in range(50)]
    for queue in queues:
        queue.append(0, 0, 100, 0)
        queue.sync()
    assert len(pool._open) == 3
    assert all(queue.read(0, 1) for queue in queues)
    pool.drop("/cq/T/49/" + "0" * 20)
    assert len(pool._open) == 2
    pool.close()
    assert len(pool._open) == 0


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.integers(1, 30)),
            st.tuples(st.just("flush"), st.just(0)),
            st.tuples(st.just("truncate"), st.integers(0, 12_000)),
            st.tuples(st.just("delete"), st.integers(0, 12_000)),
            st.tuples(st.just("reopen"), st.just(0)),
        ),
        max_size=25,
    )
)
def test_any_sequence_of_steps_agrees_with_a_plain_list(steps):
    disk = SimulatedFiles()
    queue = open_queue(disk)
    positions, low, log_min, end = [], 0, 0, 0
    for step, value in steps:
        if step == "append":
            for _ in range(value):
                queue.append(len(positions), end, 100, 1)
                positions.append(end)
                end += 100
        elif step == "flush":
            queue.flush()
        elif step == "truncate":
            cut = max(value, log_min)
            queue.truncate_to_position(cut)
            positions = positions[: max(sum(1 for position in positions if position < cut), low)]
        elif step == "delete":
            log_min = max(log_min, min(value, end))
            queue.delete_before(log_min)
            low = max(
                low, next((n for n, position in enumerate(positions) if position >= log_min), len(positions))
            )
        else:
            queue.sync()
            queue = open_queue(disk, log_min=log_min, limit=EVERYTHING)
        assert queue.max_offset == len(positions)
        assert [unit[0] for unit in units(queue, low)] == positions[low:]
