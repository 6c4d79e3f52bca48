"""All offsets are written again before retention deletes the only records of some."""

import asyncio
from dataclasses import replace

import pytest
from offsets_side import FILE, LATER_S, OffsetsSide, opened, put_file, refuse_appends

from broker_store.commit.topics import COMMITTED_TOPIC

pytestmark = pytest.mark.anyio


async def test_offsets_outlive_the_segment_of_their_records():
    side = OffsetsSide(segment_bytes=64 * 1024)
    for queue_id in range(3):
        side.committed_now(10 + queue_id, queue_id)
    side.committed_now(5, group="gone")
    for number in range(30):
        side.put("x" * 8000, KEYS=str(number))
    side.consuming.offsets.remove_group("gone")
    await side.roll()
    await side.finish(side.sending.checkpoints.take())
    care = side.foundation.care
    care.retention.value = replace(care.retention.value, keep_ms=1)
    side.pass_time(3600)
    side.files.now_ms = int(side.wall_s * 1000)
    assert await side.finish(care.delete_expired()) == 0
    await side.keeper.roll(0)
    assert side.keeper.dumps == 0
    await side.finish(side.keeper.roll(care.roll_below))
    await side.finish(side.keeper.roll(care.roll_below))
    assert side.keeper.dumps == 1
    assert await side.finish(care.delete_expired()) > 0
    assert side.log.min_position > 0
    disk = side.files.killed()
    for name in ("consumequeue", "index", "config"):
        disk.remove_dir(f"/store/{name}")
    for name in ("committed.snapshot", "queues.json", "queues.json.bak"):
        disk.remove(f"/store/gantry/{name}")
    again = OffsetsSide(disk, LATER_S + 7200, segment_bytes=64 * 1024)
    assert again.opening.is_rebuild
    assert (again.offsets(), again.offsets("gone")) == ({0: 10, 1: 11, 2: 12}, {})


async def test_a_dump_that_is_refused_keeps_the_segment(monkeypatch):
    side = OffsetsSide()
    side.committed_now(5)
    before = side.store.states.committed.pin()
    with monkeypatch.context() as full:
        refuse_appends(side, full)
        await side.finish(side.keeper.roll(1 << 40))
    assert (side.store.states.committed.pin(), side.keeper.dumps) == (before, 0)
    await side.finish(side.keeper.roll(1 << 40))
    assert side.store.states.committed.pin() > before


async def test_commits_beside_a_dump_are_in_it_or_behind_it():
    """A commit that gets its place before the dump's first record must be in the dump."""
    side = OffsetsSide()
    side.committed_now(5)
    side.commit(6, 1)
    dumping = asyncio.ensure_future(side.keeper.roll(1 << 40))
    await asyncio.sleep(0)
    side.commit(7, 2)
    side.flush()
    side.commit(8, 3)
    await side.finish(dumping)
    first = side.store.states.committed.pin()
    dumped = [record for record in side.records(COMMITTED_TOPIC) if record.position >= first]
    found = {}
    for rows in side.rows()[-len(dumped) :]:
        for _, _, offsets in rows.rows:
            found |= offsets
    assert found == side.offsets() == {0: 5, 1: 6, 2: 7, 3: 8}


async def test_retention_before_the_first_save_takes_the_file_over():
    """A dump that does not name the file would leave a part of it in the log if a crash ends it."""
    side = OffsetsSide()
    side.committed_now(5)
    disk = side.files.killed()
    put_file(disk, FILE, b'{"offsetTable":{"orders@g":{0:3}}}')
    again = opened(disk)
    await again.finish(again.keeper.roll(again.log.written_end))
    assert again.store.states.committed.origin != side.store.states.committed.origin
    assert (again.known(), again.keeper.dumps) == ({0: 3}, 1)
    again.committed_now(4)
    assert opened(disk.killed()).offsets() == {0: 4}


async def test_a_deletion_ends_on_a_full_disk_with_more_offsets_than_a_segment_holds():
    """Each dump is several segments, of which the first are due at once."""
    side = OffsetsSide(segment_bytes=128 * 1024)
    side.rolls.append(side.keeper.roll)
    for number in range(1000):
        for queue_id in range(10):
            side.consuming.offsets.commit(f"group-{number}", "orders", queue_id, 1_000_000)
    await side.finish(side.keeper.save())
    care = side.foundation.care
    care.retention.value = replace(care.retention.value, forced_free_bytes=1 << 60)
    assert await side.finish(care.delete_expired()) > 0
    assert side.keeper.dumps <= 2
