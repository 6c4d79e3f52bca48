"""Files of a queue: loaded after any end, cut, deleted, punched, and bounded in number."""

import errno

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker_store.log.consume_queues.consume_queue import ConsumeQueue
from broker_store.log.errors import LogUnreadable
from broker_store.log.files.file_pool import FilePool
from broker_store.log.files.simulated_files import Fault, SimulatedFiles
from broker_store.log.settings import LogSettings

SIZES = LogSettings(segment_bytes=4096, queue_file_units=16, prezero_bytes=0)
DIRECTORY = "/cq/T/0"
EVERYTHING = 1 << 62


def test_delete_before_raises_the_minimum_and_removes_whole_files_only(disk, open_queue, fill, units):
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


def test_truncating_drops_units_and_later_files_and_zeroes_behind(disk, open_queue, fill, units):
    queue = open_queue(disk)
    fill(queue, 40)
    queue.truncate_to_position(1800)
    assert queue.max_offset == 18
    queue.sync()
    assert disk.listdir(DIRECTORY) == [f"{byte:020d}" for byte in (0, 320)]
    assert not any(disk.read_bytes(f"{DIRECTORY}/{320:020d}")[40:])
    fill(queue, 10, first=18)
    assert units(queue) == [(100 * n, 100, 7 * n) for n in range(28)]


def test_a_file_that_was_dropped_does_not_return_after_a_power_cut(disk, open_queue, fill, units):
    queue = open_queue(disk)
    fill(queue, 33)
    queue.sync()
    queue.truncate_to_position(500)
    assert not queue.is_durable
    queue.sync()
    for left in disk.crash_states(8):
        assert units(open_queue(left, log_min=0, limit=EVERYTHING)) == [
            (100 * n, 100, 7 * n) for n in range(5)
        ]


def test_truncating_everything_leaves_an_empty_queue(disk, open_queue, fill, units):
    queue = open_queue(disk)
    fill(queue, 20)
    queue.truncate_to_position(0)
    assert (queue.min_offset, queue.max_offset) == (0, 0)
    fill(queue, 1)
    assert units(queue) == [(0, 100, 0)]


def test_punched_units_become_holes_and_the_others_stay(disk, open_queue, fill, units):
    queue = open_queue(disk)
    fill(queue, 20)
    assert queue.punch(300, 501) == 3
    assert [n for n, unit in enumerate(units(queue)) if unit[1] == 0x7FFFFFFF] == [3, 4, 5]
    queue.sync()
    assert units(open_queue(disk, log_min=0, limit=EVERYTHING)) == units(queue)


def test_loading_after_a_crash_takes_units_below_the_limit_and_returns_the_rest_as_proof(
    disk, open_queue, fill
):
    queue = open_queue(disk)
    fill(queue, 40)
    queue.sync()
    again = open_queue(disk)
    leftover = again.load(0, 2000, lambda *_: True)
    assert again.max_offset == 20
    assert leftover == queue.read(20, 20)
    assert disk.listdir(DIRECTORY) == [f"{byte:020d}" for byte in (0, 320)]
    assert again.load(0, 0, lambda *_: True) != b""


def test_loading_steps_back_over_units_that_the_log_does_not_prove(disk, open_queue, fill):
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


def test_a_missing_file_in_the_middle_ends_the_queue_there(disk, open_queue, fill):
    queue = open_queue(disk)
    fill(queue, 48)
    queue.sync()
    disk.remove(f"{DIRECTORY}/{320:020d}")
    assert open_queue(disk, log_min=0, limit=EVERYTHING).max_offset == 16


def test_a_short_file_ends_the_queue_where_it_ends_and_gets_its_size_again(disk, open_queue, fill, units):
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
def test_files_of_another_size_are_refused_not_cut(disk, start, size, open_queue):
    disk.make_dirs(DIRECTORY)
    disk.open(f"{DIRECTORY}/{start:020d}", size)
    with pytest.raises(LogUnreadable, match="mappedFileSizeConsumeQueue"):
        open_queue(disk, log_min=0, limit=EVERYTHING)


def test_a_failed_flush_keeps_the_units_in_memory_and_can_be_repeated(disk, open_queue, fill, units):
    queue = open_queue(disk)
    fill(queue, 40)
    disk.faults.append(Fault("pwrite", errno.ENOSPC, skip=1))
    with pytest.raises(OSError, match="injected"):
        queue.flush()
    assert len(units(queue)) == 40
    queue.sync()
    assert units(open_queue(disk, log_min=0, limit=EVERYTHING)) == [(100 * n, 100, 7 * n) for n in range(40)]


def test_destroying_removes_the_files(disk, open_queue, fill):
    queue = open_queue(disk)
    fill(queue, 40)
    queue.sync()
    queue.destroy()
    assert disk.listdir(DIRECTORY) == []
    assert not disk.exists(DIRECTORY)


def test_file_parts_lists_full_files_and_the_used_bytes_of_the_last(disk, open_queue, fill):
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
def test_any_sequence_of_steps_agrees_with_a_plain_list(steps, open_queue, units):
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


WALKS = {
    "delete_before": lambda queue, at: queue.delete_before(at),
    "offset_at": lambda queue, at: queue.offset_at(at),
    "position_after": lambda queue, at: queue.position_after(at),
    "punch": lambda queue, at: queue.punch(at, at + 1000),
    "read": lambda queue, at: queue.read(queue.min_offset, 4096),
    "sync": lambda queue, at: queue.sync(),
    "file_parts": lambda queue, at: queue.file_parts(),
}


@pytest.fixture
def bounded_reads(monkeypatch):
    """Fail an endless walk instead of hanging."""
    plain, left = ConsumeQueue.read, [10_000]

    def read(self, offset, count):
        left[0] -= 1
        assert left[0] > 0, "the walk does not end"
        return plain(self, offset, count)

    monkeypatch.setattr(ConsumeQueue, "read", read)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    appended=st.integers(0, 100), flushed=st.booleans(), more=st.integers(0, 40), deleted=st.integers(0, 14_000),
    at=st.integers(0, 14_000), start=st.integers(0, 70),
)  # fmt: skip
def test_every_walk_over_a_destroyed_queue_ends_and_makes_no_file(
    appended, flushed, more, deleted, at, start, open_queue, bounded_reads
):
    for walk in WALKS.values():
        disk = SimulatedFiles()
        queue = open_queue(disk)
        queue.start_at(start)
        for number in range(appended):
            queue.append(start + number, number * 100, 100, 1)
        if flushed:
            queue.flush()
        for number in range(appended, appended + more):
            queue.append(start + number, number * 100, 100, 1)
        queue.delete_before(min(deleted, (appended + more) * 100))
        queue.destroy()
        walk(queue, at)
        assert queue.min_offset == queue.max_offset == start + appended + more
        assert queue.is_durable
        assert disk.listdir(queue.directory) == []


def test_a_walk_ends_with_a_reason_when_another_program_cut_a_queue_file(
    disk, open_queue, fill, bounded_reads
):
    queue = open_queue(disk)
    fill(queue, 100)
    queue.sync()
    queue._pool.get(f"{queue.directory}/{0:020d}").truncate(0)
    with pytest.raises(LogUnreadable, match="cut or removed by another program"):
        queue.delete_before(50)
