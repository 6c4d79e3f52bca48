"""First segments that are missing: deleted by retention, where the note says so, and lost, where it does not."""

import pytest
from sending_side import ScriptedPeer, SendingSide

from broker_store.log.checkpoint.deleted_note import NAME, DeletedNote
from broker_store.log.files.simulated_files import Crashed
from broker_store.log.log_range import LogRange

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]
SEGMENT = 65_536
NOTE = f"/store/{NAME}"
QUEUE_NOTES = "/store/gantry/queues.json", "/store/gantry/queues.json.bak"


async def filled(segments=4):
    """Return a store with so many segments, all of them behind its last checkpoint."""
    side = SendingSide(segment_bytes=SEGMENT)
    while len(side.log.segments) < segments:
        side.send(ScriptedPeer(), body=b"%d:" % side.log.end + bytes(5_000))
        side.flush()
    await side.sending.checkpoints.take()
    return side


def lose(side, *starts):
    """Remove segment files, as no retention does."""
    side.threads.settle()
    for start in starts:
        side.files.remove(f"/store/commitlog/{start:020d}")
    side.files.sync_dir("/store/commitlog")


def delete(side):
    """Delete the first segment, as retention does."""
    side.log.drop_first_segment()
    side.log.remove_dropped()


def from_segments(side, first):
    """Return the messages of the segments from this number on, with their offsets."""
    return [
        (record.queue_offset, record.body) for record in side.records() if record.position >= first * SEGMENT
    ]


async def test_missing_first_segments_are_a_hole_at_each_start_and_the_rest_stays():
    side = await filled()
    kept = from_segments(side, 2)
    lose(side, 0, SEGMENT)
    for _ in range(3):
        side = side.reopen()
        assert side.opening.rebuild_reason is None
        assert side.store.skipped == [LogRange(0, 2 * SEGMENT)]
        assert [(record.queue_offset, record.body) for record in side.records()] == kept
        side.send(ScriptedPeer(), body=b"next")
        side.flush()
        kept.append((kept[-1][0] + 1, b"next"))


async def test_a_start_that_reads_the_whole_log_finds_the_hole_too():
    side = await filled()
    kept = from_segments(side, 1)
    lose(side, 0)
    for path in QUEUE_NOTES:
        side.files.remove(path)
    again = side.reopen()
    assert again.opening.is_rebuild
    assert again.store.skipped == [LogRange(0, SEGMENT)]
    assert from_segments(again, 0) == kept


async def test_a_log_without_any_segment_has_lost_everything():
    side = await filled()
    end = side.log.end
    lose(side, *(segment.start for segment in side.log.segments))
    again = side.reopen()
    assert (again.store.skipped[0].start, again.store.skipped[-1].end) == (0, end)
    assert sum(held.end - held.start for held in again.store.skipped) == end
    again.send(ScriptedPeer(), body=b"next")
    again.flush()
    assert [record.body for record in again.records()] == [b"next"]


async def test_what_retention_deleted_is_no_hole_and_what_is_lost_above_it_is_one():
    side = await filled()
    delete(side)
    again = side.reopen()
    assert again.store.skipped == []
    assert again.log.min_position == SEGMENT
    lose(again, SEGMENT)
    assert again.reopen().store.skipped == [LogRange(SEGMENT, 2 * SEGMENT)]


async def test_a_hole_at_the_beginning_ends_when_retention_has_passed_it():
    side = await filled()
    lose(side, 0)
    side = side.reopen()
    assert side.store.skipped == [LogRange(0, SEGMENT)]
    assert side.log.segments[0].start == SEGMENT
    delete(side)
    again = side.reopen()
    assert (again.store.skipped, again.log.min_position) == ([], 2 * SEGMENT)


@pytest.mark.parametrize("content", [None, b"", b"GDN1 and something else"])
async def test_a_directory_without_a_readable_note_begins_where_its_first_file_does_and_gets_one(content):
    side = await filled()
    lose(side, 0)
    side.files.remove(NOTE)
    if content is not None:
        side.files.replace_atomically(NOTE, content)
    again = side.reopen()
    assert (again.store.skipped, again.log.min_position) == ([], SEGMENT)
    lose(again, SEGMENT)
    assert again.reopen().store.skipped == [LogRange(SEGMENT, 2 * SEGMENT)]


async def test_what_another_program_deleted_is_no_hole():
    side = await filled()
    side.files.replace_atomically("/store/abort", b"1234")
    lose(side, 0)
    assert side.reopen().store.skipped == []
    assert DeletedNote(side.files, "/store").position == SEGMENT


async def test_what_an_earlier_version_deleted_is_no_hole():
    """It knows no note, and records in the note of its checkpoint where the log begins."""
    side = await filled()
    old = side.files.read_bytes(NOTE)
    delete(side)
    side.queues.note_cut(side.log.min_position)
    await side.sending.checkpoints.take()
    side.files.replace_atomically(NOTE, old)
    assert DeletedNote(side.files, "/store").position == 0
    assert side.reopen().store.skipped == []


async def test_a_deletion_that_is_cut_short_at_any_step_leaves_no_hole():
    made = await filled(3)
    side, steps = made, 0
    while True:
        side = SendingSide(made.files.killed(), made.wall_s + 1, made.monotonic_s + 1, segment_bytes=SEGMENT)
        side.files.crash_after = steps
        try:
            delete(side)
            is_over = True
        except Crashed:
            is_over = False
        side.files.crash_after = None
        for state in side.files.crash_states(20, seed=steps):
            again = SendingSide(state, made.wall_s + 2, made.monotonic_s + 2, segment_bytes=SEGMENT)
            assert again.store.skipped == []
            assert again.log.min_position in ({SEGMENT} if is_over else {0, SEGMENT})
        if is_over:
            break
        steps += 1
    assert steps > 5
