import asyncio
import errno

import pytest
from disk_care_side import MIB, running
from sending_side import ScriptedPeer, SendingSide

from broker_store.log.commit_log.commit_log import LogState
from broker_store.log.errors import LogStopped
from broker_store.log.files.simulated_files import Fault
from broker_store.opening import checkpoints, queue_saving
from gantry_wire.messages.properties import index_key_hash

pytestmark = pytest.mark.anyio


async def filled(queues: int = 4) -> SendingSide:
    side, peer = SendingSide(), ScriptedPeer()
    side.topics.ensure("orders", queues)
    for queue_id in range(queues):
        side.send(peer, queue_id=queue_id)
    side.flush()
    return side


async def test_a_checkpoint_covers_what_is_visible_and_no_more():
    side, peer = SendingSide(), ScriptedPeer()
    side.send(peer)
    side.flush()
    visible = side.log.visible_end
    side.send(peer)
    side.end_turn()
    assert await side.sending.checkpoints.take() == visible
    assert side.sending.checkpoints.behind_bytes == side.log.written_end - visible


async def test_after_a_checkpoint_every_unit_is_durable():
    side = await filled()
    await side.sending.checkpoints.take()
    for disk in side.files.crash_states(10):
        again = SendingSide(disk)
        assert again.opening.records == 0
        assert not again.opening.is_rebuild
        assert all(len(again.records(queue_id=queue_id)) == 1 for queue_id in range(4))


async def test_after_a_rebuild_a_checkpoint_has_work_although_nothing_was_sent():
    side = await filled()
    await side.sending.checkpoints.take()
    assert not side.sending.checkpoints.has_work
    disk = side.files.killed()
    disk.remove_dir("/store/consumequeue")
    rebuilt = SendingSide(disk)
    assert rebuilt.opening.is_rebuild
    assert rebuilt.sending.checkpoints.has_work
    await rebuilt.sending.checkpoints.take()
    assert not rebuilt.sending.checkpoints.has_work
    for again in rebuilt.files.crash_states(10):
        assert not SendingSide(again).opening.is_rebuild


def expire_oldest(side):
    """Make the oldest segment, and no other, old enough for retention."""
    side.pass_time(3 * 3600)
    oldest, *others = side.log.segments
    side.files.set_modified_ms(oldest.path, 0)
    for segment in others:
        side.files.set_modified_ms(segment.path, side.clock.now_ms())


@pytest.mark.parametrize("lost", ["consumequeue/orders/0", "index"])
async def test_what_is_lost_at_the_beginning_is_found_after_a_retention_in_a_store_that_nobody_sends_to(lost):
    small = {"queue_file_units": 4, "index_entries": 8}
    side = SendingSide(segment_bytes=MIB, reserved_hours=1, checkpoint_seconds=0.05, **small)
    for number in range(14):
        side.send(ScriptedPeer(), body=b"x" * 250_000, properties={"UNIQ_KEY": f"U{number}"})
        side.flush()
    await side.roll()
    await side.sending.checkpoints.take()
    expire_oldest(side)
    checkpoints, care = side.sending.checkpoints, side.foundation.care
    side.appends.work.clear()  # as in a store at rest
    async with running(side.sending.take_checkpoints), asyncio.timeout(20):
        await asyncio.sleep(0.1)
        assert await care.delete_expired() == 1
        while checkpoints.count < 2:
            await asyncio.sleep(0.005)
    disk = side.files.killed()
    first, *rest = disk.listdir(f"/store/{lost}")
    assert rest
    disk.remove(f"/store/{lost}/{first}")
    again = SendingSide(disk, side.wall_s, segment_bytes=MIB, **small)
    offsets = [record.queue_offset for record in again.records()]
    assert offsets == [record.queue_offset for record in side.records()]
    for offset in offsets:
        found = again.store.index.lookup(index_key_hash("orders", f"U{offset}"), 0, 1 << 60, 9)
        assert found == side.store.index.lookup(index_key_hash("orders", f"U{offset}"), 0, 1 << 60, 9) != []


async def test_a_retention_stays_work_until_a_checkpoint_has_saved_its_note():
    side = SendingSide(segment_bytes=MIB, reserved_hours=1)
    for _ in range(9):
        side.send(ScriptedPeer(), body=b"x" * 250_000)
        side.flush()
    await side.roll()
    await side.sending.checkpoints.take()
    expire_oldest(side)
    assert await side.foundation.care.delete_expired() == 1
    side.files.faults.append(Fault("pwrite", errno.ENOSPC, "gantry/queues.json"))
    with pytest.raises(OSError, match="injected"):
        await side.sending.checkpoints.take()
    assert side.sending.checkpoints.has_work
    await side.sending.checkpoints.take()
    assert not side.sending.checkpoints.has_work


async def test_after_a_checkpoint_of_many_queues_their_units_are_durable(monkeypatch):
    monkeypatch.setattr(queue_saving, "QUEUES_WITHOUT_JOURNAL_MAX", 8)
    side = await filled(40)
    before = len(side.files.trace)
    await side.sending.checkpoints.take()
    assert ("sync_dir", "/store/consumequeue/orders") in side.files.trace[before:]
    for disk in side.files.crash_states(4):
        again = SendingSide(disk)
        assert all(len(again.records(queue_id=queue_id)) == 1 for queue_id in range(40))


async def test_units_written_between_two_checkpoints_are_synced_too():
    side = await filled()
    for queue in side.queues.all():
        queue.units.flush()
    await side.sending.checkpoints.take()
    for disk in side.files.crash_states(6):
        assert not SendingSide(disk).opening.is_rebuild


async def test_a_full_disk_keeps_the_last_checkpoint_valid_and_the_next_one_works():
    side = await filled()
    side.files.faults.append(Fault("pwrite", errno.ENOSPC, "consumequeue"))
    with pytest.raises(OSError, match="injected"):
        await side.sending.checkpoints.take()
    assert side.sending.checkpoints.position == 0
    assert await side.sending.checkpoints.take() == side.log.end


async def test_no_descriptor_for_the_directory_of_the_log_fails_one_checkpoint_and_stops_nothing():
    side = SendingSide()
    side.send(ScriptedPeer())
    side.end_turn()  # written in a new segment, whose name no flush has made durable
    side.files.faults.append(Fault("sync_dir", errno.EMFILE, "commitlog"))
    with pytest.raises(OSError, match="no descriptor"):
        await side.sending.checkpoints.take()
    assert side.log.state is LogState.RUNNING
    side.flush()
    assert await side.sending.checkpoints.take() == side.log.end


@pytest.mark.parametrize("part", ["consumequeue", "index", "gantry/keys", "checkpoint"])
async def test_after_a_failed_sync_there_is_no_checkpoint_until_a_restart(part):
    side, peer = SendingSide(), ScriptedPeer()
    side.send(peer, properties={"__GANTRY_KEY": "k", "UNIQ_KEY": "U"})
    side.flush()
    side.files.faults.append(Fault("sync", errno.EIO, part))
    with pytest.raises(OSError, match="injected"):
        await side.sending.checkpoints.take()
    assert side.log.state is LogState.STOPPED
    with pytest.raises(OSError, match="no checkpoint after a failed sync"):
        await side.sending.checkpoints.take()
    await side.sending.checkpoints.close()
    assert len(side.reopen().records()) == 1


async def test_a_stopped_log_ends_without_a_last_checkpoint():
    side = await filled()
    side.files.faults.append(Fault("sync", errno.EIO, "commitlog"))
    side.send(ScriptedPeer())
    side.end_turn()
    with pytest.raises(LogStopped):
        side.log.sync()
    await side.sending.checkpoints.close()
    assert len(side.reopen().records()) >= 1


@pytest.mark.parametrize("skip", [0, 1, 20, 39])
@pytest.mark.parametrize("call", ["pwrite", "open"])
async def test_a_checkpoint_that_met_a_full_disk_forgets_nothing_that_must_be_synced(monkeypatch, skip, call):
    monkeypatch.setattr(queue_saving, "QUEUES_WITHOUT_JOURNAL_MAX", 8)
    side = (await filled(40)).reopen()  # after a crash all files are written, journal or not
    side.files.faults.append(Fault(call, errno.ENOSPC, "consumequeue", skip=skip))
    with pytest.raises(OSError, match="injected"):
        await side.sending.checkpoints.take()
    monkeypatch.setattr(queue_saving, "QUEUES_WITHOUT_JOURNAL_MAX", 256)  # now each file singly
    await side.sending.checkpoints.take()
    for disk in side.files.crash_states(4):
        again = SendingSide(disk)
        assert not again.opening.is_rebuild
        assert again.opening.records == 0
        assert all(len(again.records(queue_id=queue_id)) == 1 for queue_id in range(40))


async def test_with_little_to_do_a_checkpoint_pauses_between_its_slices_and_a_stop_cuts_that_short(
    monkeypatch,
):
    monkeypatch.setattr(checkpoints, "REST_SHARE", 1e12)
    monkeypatch.setattr(checkpoints, "REST_SECONDS_MAX", 3600)
    side = await filled()
    taking = asyncio.ensure_future(side.sending.checkpoints.take())
    await asyncio.sleep(0.2)
    assert not taking.done()
    async with asyncio.timeout(30):
        await side.sending.checkpoints.close()
        assert await taking == side.log.visible_end


async def test_with_much_to_do_a_checkpoint_does_not_pause(monkeypatch):
    monkeypatch.setattr(checkpoints, "REST_SECONDS_MAX", 3600)
    monkeypatch.setattr(checkpoints, "REST_SHARE", 1e12)
    monkeypatch.setattr(checkpoints, "CALM_BYTES", 1)
    side = await filled()
    async with asyncio.timeout(30):
        assert await side.sending.checkpoints.take() == side.log.visible_end
