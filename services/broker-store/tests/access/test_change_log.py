"""Entries are answered when they are durable, outlive retention, and a store that lost all but its log knows every user."""

import asyncio
import errno
from dataclasses import replace

import pytest
from access_side import AccessSide
from sending_side import DIRECTORY, ScriptedPeer
from structlog.testing import capture_logs

from broker_store.commit.topics import ACCESS_TOPIC
from broker_store.log.commit_log.commit_log import LogState
from broker_store.log.errors import LogStopped
from broker_store.log.files.simulated_files import Fault
from gantry_access.entries.entry import Entry, Kind
from gantry_wire.errors import RefusedRequest
from gantry_wire.limits import BODY_BYTES_MAX
from gantry_wire.names import GANTRY_SYSTEM_PREFIX

pytestmark = pytest.mark.anyio
MIB = 1024 * 1024


def user(name: str, stamp_ms: int = 1, record: bytes | None = None) -> Entry:
    return Entry(Kind.USER, name, stamp_ms, record)


@pytest.mark.parametrize("flush", ["sync", "async"])
async def test_a_change_is_visible_and_answered_only_after_its_flush_whatever_the_flush_mode(flush):
    side = AccessSide(flush=flush)
    task = asyncio.ensure_future(side.access.log.append([user("a"), user("b")]))
    for _ in range(5):
        await asyncio.sleep(0)
        side.end_turn()
    assert not task.done()
    assert side.entries == {}
    assert side.wishes, "nobody asked for a flush"
    side.flush()
    await task
    assert set(side.entries) == {("user", "a"), ("user", "b")}
    for disk in side.files.crash_states(20):
        assert AccessSide(disk, flush=flush).entries == side.entries


async def test_a_change_that_cannot_be_flushed_is_refused_and_does_not_count():
    side = AccessSide()
    side.files.faults.append(Fault("sync", errno.EIO, "commitlog"))
    task = asyncio.ensure_future(side.access.log.append([user("a")]))
    await asyncio.sleep(0)
    side.end_turn()
    with pytest.raises(LogStopped) as stop:
        side.log.sync()
    side.appends.failed(stop.value)
    with pytest.raises(RefusedRequest, match="whether it is stored is unknown"):
        await task
    assert side.entries == {}
    assert side.log.state is LogState.STOPPED
    with pytest.raises(RefusedRequest, match="stopped"):
        await side.access.log.append([user("b")])


async def test_a_change_that_no_record_can_hold_is_refused():
    side = AccessSide()
    with pytest.raises(RefusedRequest, match="the limit is"):
        await side.access.log.append([user("a", record=b'"%b"' % (b"x" * BODY_BYTES_MAX))])
    assert side.appends.is_idle


async def test_no_client_reads_sends_or_lists_the_entries():
    side = AccessSide()
    await side.finish(side.access.log.append([user("a")]))
    peer = ScriptedPeer()
    side.send(peer, ACCESS_TOPIC, b"{}")
    assert [answer.code for answer in peer.answers] == [16]
    assert ACCESS_TOPIC.startswith(GANTRY_SYSTEM_PREFIX)
    assert side.topics.is_internal(ACCESS_TOPIC)
    assert ACCESS_TOPIC not in side.topics.system_names()


def with_old_segments(**settings) -> AccessSide:
    """Return a store whose oldest segments are due for deletion. The first one has the only records of users."""
    return AccessSide(segment_bytes=MIB, reserved_hours=1, **settings)


async def fill(side: AccessSide) -> None:
    for number in range(14):
        if number == 9:
            side.pass_time(3601)
        side.send(ScriptedPeer(), body=b"x" * 250_000)
        side.flush()
    await side.roll()
    for segment in side.log.segments:
        side.files.set_modified_ms(segment.path, 0)


async def test_retention_deletes_a_segment_only_after_its_entries_were_appended_again():
    side = with_old_segments()
    await side.finish(side.access.log.append([user("kept"), user("gone", 1, b"{}"), user("gone", 2)]))
    await fill(side)
    care = side.foundation.care
    with capture_logs() as logs:
        assert await care.delete_expired() == 0, "the only records of users were deleted"
    assert any("the only records of users" in line["event"] for line in logs)
    await side.finish(side.access.roll(care.roll_below))
    assert side.access.log.rolled == 2, "an entry that another one replaced is not appended again"
    assert await care.delete_expired() == 2
    assert side.log.min_position > 0
    side.flush()
    bare = side.files.killed()
    for name in ("consumequeue", "index", "gantry/keys", "gantry/units"):
        bare.remove_dir(f"{DIRECTORY}/{name}")
    for name in ("access", "settled", "leases", "transactions"):
        bare.remove(f"{DIRECTORY}/gantry/{name}.snapshot")
    bare.remove(f"{DIRECTORY}/gantry/queues.json")
    again = AccessSide(bare, side.wall_s, segment_bytes=MIB)
    assert again.entries == side.entries == {("user", "kept"): None, ("user", "gone"): None}


async def test_one_request_deletes_the_segments_that_are_due_when_their_entries_can_be_appended_again():
    side = with_old_segments()
    await side.finish(side.access.log.append([user("kept")]))
    await fill(side)
    side.rolls.append(side.access.roll)
    assert await side.finish(side.foundation.care.delete_expired()) == 2
    assert side.access.log.rolled == 1
    assert side.reopen().entries == side.entries


async def test_entries_that_cannot_be_appended_again_keep_their_segment():
    side = with_old_segments()
    await side.finish(side.access.log.append([user("kept")]))
    await fill(side)
    await side.foundation.care.delete_expired()
    side.log.stop_on(OSError(errno.EIO, "injected"))
    with capture_logs() as logs:
        await side.access.roll(side.foundation.care.roll_below)
    assert any("keep a segment" in line["event"] for line in logs)
    assert await side.foundation.care.delete_expired() == 0


async def test_a_disk_that_is_full_keeps_the_entries_rather_than_the_space():
    side = with_old_segments()
    await side.finish(side.access.log.append([user("kept")]))
    await fill(side)
    care = side.foundation.care
    care.retention.value = replace(care.retention.value, forced_free_bytes=1 << 62, keep_ms=1 << 50)
    assert await care.delete_expired() == 0
    await side.finish(side.access.roll(care.roll_below))
    assert await care.delete_expired() > 0
    assert side.reopen().entries == side.entries


async def test_news_of_other_stores_are_appended_once():
    side = AccessSide()
    news = [user("a", 5), user("b", 5)]
    await side.finish(side.access.log.keep(news))
    end = side.log.written_end
    await side.finish(side.access.log.keep([*news, user("a", 4)]))
    assert side.log.written_end == end
    assert set(side.entries) == {("user", "a"), ("user", "b")}


async def test_a_directory_of_an_earlier_version_is_opened_without_a_rebuild():
    side = AccessSide()
    side.send(ScriptedPeer())
    side.flush()
    await side.finish(side.sending.checkpoints.take())
    side.files.remove(f"{DIRECTORY}/gantry/access.snapshot")
    assert side.reopen().opening.rebuild_reason is None


async def test_a_lost_snapshot_of_entries_rebuilds_them_from_the_log():
    side = AccessSide()
    await side.finish(side.access.log.append([user("a")]))
    for _ in range(20):
        side.send(ScriptedPeer(), body=b"x" * 250_000)
        side.flush()
    await side.finish(side.sending.checkpoints.take())
    side.files.remove(f"{DIRECTORY}/gantry/access.snapshot")
    again = side.reopen()
    assert again.opening.rebuild_reason == "snapshot"
    assert again.entries == side.entries
