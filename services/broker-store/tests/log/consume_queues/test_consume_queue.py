"""Units of a queue: in memory and in files, searched, flushed, cut, and repeated without harm."""

import pytest

from broker_store.log.files.simulated_files import SimulatedFiles
from broker_store.log.settings import LogSettings
from gantry_wire.records.units import CONSUME_QUEUE_BLANK, CONSUME_QUEUE_UNIT

SIZES = LogSettings(segment_bytes=4096, queue_file_units=16, prezero_bytes=0)
DIRECTORY = "/cq/T/0"
EVERYTHING = 1 << 62


def test_units_are_readable_before_they_are_flushed(disk, open_queue, fill, units):
    queue = open_queue(disk)
    fill(queue, 3)
    assert units(queue) == [(0, 100, 0), (100, 100, 7), (200, 100, 14)]
    assert disk.trace == []
    assert not queue.is_flushed


def test_reads_cross_files_and_memory_and_stop_at_the_end(disk, open_queue, fill, units):
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


def test_files_have_full_size_and_are_named_by_the_byte_of_their_first_unit(disk, open_queue, fill):
    queue = open_queue(disk)
    fill(queue, 40)
    queue.sync()
    assert disk.listdir(DIRECTORY) == [f"{byte:020d}" for byte in (0, 320, 640)]
    assert {disk.size(f"{DIRECTORY}/{name}") for name in disk.listdir(DIRECTORY)} == {320}
    content = disk.read_bytes(f"{DIRECTORY}/{640:020d}")
    assert content[:20] == CONSUME_QUEUE_UNIT.pack(3200, 100, 224)
    assert not any(content[160:])


def test_a_synced_queue_survives_a_power_cut_whole(disk, open_queue, fill, units):
    queue = open_queue(disk)
    fill(queue, 40)
    queue.sync()
    (state,) = list(disk.crash_states(100))
    assert units(open_queue(state, log_min=0, limit=EVERYTHING)) == units(queue)


def test_appending_again_changes_nothing(disk, open_queue, fill, units):
    queue = open_queue(disk)
    fill(queue, 20)
    before = units(queue)
    fill(queue, 20)
    queue.flush()
    fill(queue, 20)
    assert units(queue) == before


def test_a_gap_is_filled_with_units_that_name_nothing(disk, open_queue, fill, units):
    queue = open_queue(disk)
    fill(queue, 2)
    assert queue.append(5, 1000, 100, 1) == 3
    hole = (0, 0x7FFFFFFF, 0)
    assert units(queue) == [(0, 100, 0), (100, 100, 7), hole, hole, hole, (1000, 100, 1)]


def test_an_offset_that_cannot_be_true_is_left_out(disk, open_queue, fill):
    queue = open_queue(disk)
    fill(queue, 2)
    assert queue.append(2**50, 1000, 100, 1) == 1
    assert queue.append(11, 1000, 100, 1) == 1  # ten records of at least 91 bytes do not fit into 900
    assert queue.max_offset == 2
    empty = open_queue(SimulatedFiles())
    assert empty.append(2**50, 1000, 100, 1) == 1
    assert empty.max_offset == 0


def test_a_record_whose_offset_was_taken_by_a_hole_gets_its_unit_after_all(disk, open_queue, fill, units):
    queue = open_queue(disk)
    fill(queue, 2)
    queue.append(4, 1000, 100, 1)
    queue.append(2, 1100, 100, 2)
    queue.append(4, 1200, 100, 3)  # a real unit stays
    assert units(queue, 2) == [(1100, 100, 2), (0, 0x7FFFFFFF, 0), (1000, 100, 1)]


def test_a_queue_that_a_damaged_first_record_let_begin_too_late_begins_earlier_after_all(
    disk, open_queue, units
):
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
    late.append(3, 5100, 100, 1)  # its file was never created
    assert late.min_offset == 20


def test_a_damaged_record_uses_up_its_offset_unless_that_cannot_be_true(disk, open_queue, fill, units):
    queue = open_queue(disk)
    fill(queue, 2)
    assert queue.leave_hole(2, 200) == 1
    assert queue.leave_hole(1, 100) == 0
    assert queue.leave_hole(2**40, 200) == 2
    assert queue.max_offset == 3
    assert units(queue, 2) == [(0, 0x7FFFFFFF, 0)]


def test_plausibility_looks_behind_holes(disk, open_queue, fill):
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


def test_an_empty_queue_starts_anywhere_with_its_file_filled_before(disk, open_queue, units):
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


def test_many_skipped_offsets_are_filled_without_growing_memory(disk, open_queue, fill):
    queue = open_queue(disk)
    fill(queue, 1)
    queue.start_at(9000)
    assert queue.max_offset == 9000
    assert len(queue._tail) <= 32 * 20
    assert queue.position_after(0) is None


def test_searching_by_position_passes_over_holes(disk, open_queue):
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


@pytest.mark.parametrize("first", [0, 3, 5, 9])
def test_units_added_together_are_those_added_one_by_one(disk, open_queue, first):
    """At the end, over existing units, and beyond the end."""
    positions, sizes, codes = [9000, 9100, 9300], [100, 200, 150], [0, -7, 1 << 40]
    together, single = open_queue(disk), open_queue(SimulatedFiles())
    for queue in (together, single):
        for offset in range(5):
            queue.append(offset, 1000 + 100 * offset, 100, offset)
    together.append_all(first, positions, sizes, codes)
    for number in range(3):
        single.append(first + number, positions[number], sizes[number], codes[number])
    assert together.max_offset == single.max_offset
    assert together.read(0, 20) == single.read(0, 20)
