"""The far end: an added message is found at once and is loaded once, in time order."""

import _sqlite3
import asyncio
import ctypes
import sqlite3

import msgspec
import pytest

from gantry_chassis.machine.environment import machine
from scheduler.index.entries import Entry, key_of
from scheduler.index.far_rows import Place, Wanted
from scheduler.index.sqlite_index import BATCH_ROWS, SqliteIndex

pytestmark = pytest.mark.anyio


def entry(offset, due_ms, topic="t", keys=b"", uniq=None, source=0):
    key = key_of(source, offset)
    return Entry(due_ms, key, offset * 100, topic, 1, uniq or b"u%d" % offset, keys)


@pytest.fixture
async def index(tmp_path):
    made = SqliteIndex(tmp_path / "d" / "a.due.sqlite", machine().workers)
    yield made
    await made.close()
    assert list((tmp_path / "d").iterdir()) == []


async def test_messages_load_in_time_order_and_only_once(index):
    for offset, at in ((1, 30), (2, 10), (3, 20), (4, 40)):
        index.add(0, at, entry(offset, at))
    index.add(1, 5, msgspec.structs.replace(entry(9, 5), is_absolute=True))
    assert [(at, one.offset) for at, one in await index.load(0, 30, 2)] == [(10, 2), (20, 3)]
    assert [one.offset for _, one in await index.load(0, 30, 9)] == [1]
    assert await index.load(0, 30, 9) == []
    assert [(one.offset, one.is_absolute) for _, one in await index.load(1, 99, 9)] == [(9, True)]


async def test_a_message_is_found_before_and_after_it_is_written(index):
    added = entry(1, 50, keys=b"k1 k2")
    index.add(0, 50, added)
    assert await index.find(b"u1") == [added]
    await index.load(0, 0, 1)  # everything before it is now written
    assert await index.find(b"u1") == [added]
    assert await index.find(b"u2") == []
    assert await index.remove(0, [added, entry(12345, 50)]) == 1
    assert await index.find(b"u1") == []


async def test_lookups_by_id_do_not_change_after_the_log_was_read(index):
    for offset in range(50):
        index.add(0, offset, entry(offset, offset, uniq=b"same" if offset % 2 else None))
    index.read_all()
    index.add(0, 99, entry(99, 99, uniq=b"same"))
    assert {one.offset for one in await index.find(b"same")} == {*range(1, 50, 2), 99}
    await index.load(0, 0, 1)
    assert {one.offset for one in await index.find(b"same")} == {*range(1, 50, 2), 99}
    assert [one.offset for one in await index.find(b"u4")] == [4]


async def test_pages_continue_where_the_last_ended_and_apply_filters(index):
    for offset in range(10):
        index.add(
            offset % 2,
            100 - offset // 2,
            entry(offset, 100 - offset // 2, f"t{offset % 3}", b"x k%d" % offset),
        )
    everything = Wanted((0, 1))
    seen, place = [], None
    while rows := await index.page(everything, place, 3):
        seen += [one.offset for _, one in rows]
        place = Place(rows[-1][0], rows[-1][1].key)
    assert seen == [8, 9, 6, 7, 4, 5, 2, 3, 0, 1]
    assert {one.offset for _, one in await index.page(Wanted((0,)), None, 99)} == {0, 2, 4, 6, 8}
    assert {one.offset for _, one in await index.page(Wanted((0, 1), topic="t1"), None, 99)} == {1, 4, 7}
    assert {one.offset for _, one in await index.page(Wanted((0, 1), message_key="k3"), None, 99)} == {3}
    assert await index.page(Wanted((0, 1), message_key="k"), None, 99) == []
    assert {one.offset for _, one in await index.page(Wanted((0, 1), from_ms=97, to_ms=99), None, 99)} == {
        4,
        5,
        6,
        7,
    }


async def test_messages_below_a_position_are_found_by_source(index):
    for offset in range(5):
        index.add(0, 10, entry(offset, 10))
        index.add(0, 10, entry(offset, 10, source=1, uniq=b"v%d" % offset))
    await index.load(0, 0, 1)
    found = await index.below(300, key_of(1, 0), key_of(2, 0), 10)
    assert [(one.source, one.offset) for one in found] == [(1, 0), (1, 1), (1, 2)]


async def test_a_message_that_was_put_back_is_removed_at_its_new_time(index):
    late, nameless = entry(1, 50), msgspec.structs.replace(entry(2, 50), uniq=b"")
    index.add(0, 10_000_000, late)
    index.add(0, 20_000_000, nameless)
    index.add(0, 10_000_000, entry(3, 50))
    assert await index.remove(0, [late, nameless]) == 2
    assert [one.offset for _, one in await index.load(0, 10**9, 9)] == [3]


async def test_a_time_ordered_list_crosses_slots_and_full_ones(index):
    for offset in range(300):
        index.add(0, 1_000_000 + offset * 100, entry(offset, 1_000_000 + offset * 100))
        index.add(1, 1_005_000, entry(offset, 1_005_000, source=1, uniq=b"v%d" % offset))
    seen, place = [], None
    while rows := await index.page(Wanted((0, 1)), place, 70):
        seen += [(at, one.key) for at, one in rows]
        place = Place(rows[-1][0], rows[-1][1].key)
    assert len(seen) == len(set(seen)) == 600
    assert seen == sorted(seen)
    late = await index.page(Wanted((0, 1), from_ms=1_029_000), None, 99)
    assert [one.offset for _, one in late] == list(range(290, 300))


async def test_many_rows_are_written_in_batches_until_there_is_room(index):
    for offset in range(3 * BATCH_ROWS + 5):
        index.add(0, offset, entry(offset, offset))
    await index.room()
    rows = await index.load(0, 10**9, 10**6)
    assert [one.offset for _, one in rows] == list(range(3 * BATCH_ROWS + 5))
    assert index.rows_written == 3 * BATCH_ROWS + 5


async def test_an_old_file_is_not_taken_over(tmp_path):
    path = tmp_path / "a.due.sqlite"
    path.write_bytes(b"not a database at all, and long enough to be seen as one" * 100)
    index = SqliteIndex(path, machine().workers)
    index.add(0, 1, entry(1, 1))
    assert len(await index.load(0, 1, 1)) == 1
    await index.close()


@pytest.fixture
async def small_disk(index):
    """An index whose file cannot grow. SQLite reports it like a full disk."""

    def fill():
        pages = index._write_to.execute("PRAGMA page_count").fetchone()[0]
        index._write_to.execute(f"PRAGMA max_page_count = {pages}")

    def free():
        index._write_to.execute("PRAGMA max_page_count = 1000000")

    return fill, free


async def test_a_full_disk_loses_nothing_and_messages_load_once_there_is_space(index, small_disk):
    fill, free = small_disk
    index.add(0, 5, entry(1, 5))
    await index.page(Wanted((0,)), None, 1)
    fill()
    big = b"k" * 9000
    for offset in range(2, 10):
        index.add(0, offset * 5, entry(offset, offset * 5, keys=big))
    await index.page(Wanted((0,)), None, 1)  # the write was tried and failed
    assert index.rows_written == 1
    assert [one.offset for one in await index.find(b"u7")] == [7]
    loading = asyncio.ensure_future(index.load(0, 1000, 100))
    await asyncio.sleep(0.05)
    free()
    loaded = [one.offset for _, one in await asyncio.wait_for(loading, 60)]
    while len(loaded) < 9:
        loaded += [one.offset for _, one in await asyncio.wait_for(index.load(0, 1000, 100), 60)]
    assert sorted(loaded) == list(range(1, 10))


async def test_an_unusable_file_ends_the_term(index):
    index._write_to.execute("DROP TABLE far")
    index.add(0, 5, entry(1, 5))
    with pytest.raises(sqlite3.Error):
        await asyncio.wait_for(index.run(), 60)


async def test_rows_being_written_are_found_by_id(index):
    many = [entry(offset, offset, uniq=b"same" if offset < 3 else None) for offset in range(BATCH_ROWS + 300)]
    index.add_all([(0, one.due_ms, one) for one in many])
    assert {one.offset for one in await index.find(b"same")} == {0, 1, 2}
    assert [one.offset for one in await index.find(b"u%d" % (BATCH_ROWS + 299))] == [BATCH_ROWS + 299]
    index.add(0, 7, entry(-7 + BATCH_ROWS * 2, 7, uniq=b"same"))
    assert len(await index.find(b"same")) == 4
    taken = await index.load(0, BATCH_ROWS * 2, BATCH_ROWS * 2)
    assert len(taken) == len(many) + 1
    assert index.has_room
    assert await index.find(b"same") == []


def sqlite_bytes():
    """Return the memory SQLite reports as allocated."""
    used = ctypes.CDLL(_sqlite3.__file__).sqlite3_memory_used
    used.restype = ctypes.c_longlong
    return used()


async def test_sqlite_memory_does_not_grow_with_the_rows(tmp_path):
    before = sqlite_bytes()
    index = SqliteIndex(tmp_path / "a.due.sqlite", machine().workers, "this")
    for offset in range(200_000):
        index.add(0, offset * 40, entry(offset, offset * 40))
    assert len(await index.page(Wanted((0,)), None, 200_000)) == 200_000
    index.read_all()
    await index.load(0, 0, 1)
    assert sqlite_bytes() - before < 12 << 20  # it was 21 MiB
    await index.close()
