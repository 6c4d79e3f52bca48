"""Decided items across restarts: replay, snapshots, their loss; what retention must keep; copies for RocketMQ."""

import asyncio
import errno

import pytest
from sending_side import ScriptedPeer
from settling_side import SettlingSide, deliver

from broker_store.commit.topics import MARKS_TOPIC
from broker_store.config.config_files import ConfigFile
from broker_store.groups.offsets import OffsetTable
from broker_store.log.errors import LogStopped
from broker_store.log.files.simulated_files import Fault
from broker_store.log.snapshot import Snapshots
from broker_store.process.disk_care import DiskCare
from broker_store.settling.cursor_copies import (
    KEPT_FILE,
    CursorCopies,
    keep_foreign_cursors,
    read_kept_cursors,
)
from gantry_chassis.machine.environment import machine
from gantry_wire.codes import RequestCode
from gantry_wire.names import HALF_TOPIC, SCHEDULE_TOPIC
from gantry_wire.private_requests.settling import SettleItem

pytestmark = pytest.mark.anyio
MIB = 1024 * 1024
SOURCE = (SCHEDULE_TOPIC, 0, "")
SNAPSHOT = "/store/gantry/settled.snapshot"


@pytest.fixture
def peer():
    return ScriptedPeer()


async def half_decided(peer, count=6, decided=(0, 1, 4), **settings):
    side = SettlingSide(**settings)
    side.topics.ensure("orders", 4)
    for number in range(count):
        side.delayed(peer, b"m%d" % number)
    side.pass_time(2)
    side.settled([side.item(offset, deliver()) for offset in decided])
    return side


def take_over(side, table):
    keep_foreign_cursors(side.files, "/store/config", f"/store/{KEPT_FILE}")
    read_kept_cursors(side.files, f"/store/{KEPT_FILE}", table)


def state(side):
    settled = side.settling.table.of(SOURCE)
    return settled.cursor, list(settled.ranges())


@pytest.mark.parametrize("closes", [True, False])
async def test_a_snapshot_is_taken_with_the_checkpoint_and_the_rest_replayed(peer, closes):
    side = await half_decided(peer)
    await side.sending.checkpoints.take()
    side.settled([side.item(2, deliver())])
    if closes:
        await side.sending.checkpoints.close()
    again = side.reopen()
    assert not again.opening.is_rebuild
    assert again.opening.records == (0 if closes else 1)
    assert state(again) == (3, [(4, 5)])


@pytest.mark.parametrize("harm", ["lost", "damaged", "older"])
async def test_a_snapshot_that_does_not_match_is_rebuilt_from_the_log(peer, harm):
    side = await half_decided(peer)
    await side.sending.checkpoints.take()
    older = side.files.read_bytes(SNAPSHOT)
    side.settled([side.item(5, deliver())])
    await side.sending.checkpoints.take()
    if harm == "lost":
        side.files.remove(SNAPSHOT)
    elif harm == "damaged":
        side.files.open(SNAPSHOT).pwrite(b"?", 25)
    else:
        side.files.replace_atomically(SNAPSHOT, older)
    again = side.reopen()
    assert again.opening.is_rebuild
    assert state(again) == (2, [(4, 6)])


async def test_a_snapshot_ahead_of_the_log_is_not_trusted(peer):
    side = await half_decided(peer, decided=())
    start = side.log.end
    side.settled([side.item(0, deliver())])
    side.store.snapshots.save("settled", side.settling.table.snapshot(side.log.end), side.log.end)
    disk = side.files.killed()
    log = disk.open("/store/commitlog/00000000000000000000")
    log.pwrite(bytes(side.log.end - start), start)
    again = SettlingSide(disk, 1_700_000_100.0)
    assert state(again) == (0, [])


async def test_lost_queues_and_snapshots_together_are_rebuilt(peer):
    side = await half_decided(peer)
    await side.sending.checkpoints.close()
    side.files.remove_dir("/store/consumequeue")
    side.files.remove(SNAPSHOT)
    again = side.reopen()
    assert state(again) == (2, [(4, 5)])
    assert again.outcomes() == [(b"m0", 0), (b"m1", 1), (b"m4", 4)]


async def test_groups_decide_for_themselves_and_a_deleted_topic_is_forgotten(peer):
    side = SettlingSide()
    side.send(peer, body=b"a")
    side.flush()
    for group in ("g1", "g2"):
        item = side.item(0, deliver("%DLQ%" + group), topic="orders")
        side.topics.ensure("%DLQ%" + group, 1)
        assert side.settled([item], topic="orders", group=group)[0].status == "settled"
        assert side.settled([item], topic="orders", group=group)[0].status == "already"
    assert sorted(side.settling.table.groups("orders", 0)) == ["g1", "g2"]
    side.ask(peer, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})
    side.flush()
    await asyncio.sleep(0)
    for seen in (side, side.reopen()):
        assert seen.settling.table.groups("orders", 0) == []


async def test_an_op_message_of_another_broker_decides_the_halves_it_names(peer):
    side = SettlingSide()
    side.sending.internal.append("RMQ_SYS_TRANS_OP_HALF_TOPIC", 0, b"3,0,", tags="d")
    side.flush()
    again = side.reopen()
    settled = again.settling.table.of((HALF_TOPIC, 0, ""))
    assert (settled.cursor, list(settled.ranges())) == (1, [(3, 4)])


async def test_the_lowest_undecided_item_of_a_system_queue_is_kept(peer):
    side = await half_decided(peer)
    assert side.pin == side.unit(SCHEDULE_TOPIC, 0, 2)[0]
    side.settled([side.item(offset, deliver()) for offset in (2, 3, 5)])
    assert side.pin is None
    side.send(peer, "plain")
    side.flush()
    assert side.pin is None


@pytest.mark.parametrize("decides", [True, False])
async def test_retention_asks_to_roll_forward_what_it_may_not_delete(peer, decides, monkeypatch):
    side = SettlingSide(segment_bytes=MIB)
    side.topics.ensure("orders", 4)
    side.delayed(peer, level=18)
    for _ in range(9):
        side.send(peer, body=b"x" * 250_000)
        side.flush()
    assert len(side.log.segments) == 3
    if decides:
        side.settled([side.item(0, queue_id=17)], queue_id=17)
    await side.roll()
    care = care_of(side)
    monkeypatch.setattr("broker_store.process.disk_care.RETENTION_SECONDS", 0.001)
    monkeypatch.setattr(type(side.files), "free_bytes", lambda _self, _path: 1)  # deletion is forced
    first = side.log.segments[0]
    task = asyncio.ensure_future(care.delete_old())
    async with asyncio.timeout(30):
        while not (care.deleted_segments if decides else care.roll_below):
            await asyncio.sleep(0.001)
    task.cancel()
    if decides:
        assert side.log.min_position >= first.end
        assert side.settling.state_of((SCHEDULE_TOPIC, 17, "")) == (1, 1)
    else:
        assert side.log.min_position == 0
        assert care.roll_below == first.end
        item = SettleItem(0, side.unit(SCHEDULE_TOPIC, 17, 0)[0])
        assert side.settled([item], queue_id=17)[0].status == "settled"


def care_of(side):
    snapshots = Snapshots(side.files, "/store", machine().secret_bytes)
    return DiskCare(side.store, snapshots, machine().workers(1, "disk"), None)


def copies_of(side, offsets, file, sync_log=lambda: None):
    return CursorCopies(
        side.settling.table, side.queues, offsets, file, side.thread, side.clock.now_ms, sync_log
    )


async def test_cursors_are_copied_only_once_the_log_is_durable(peer):
    side = await half_decided(peer)
    file = ConfigFile(side.files, "/store/config/delayOffset.json")
    errors = [LogStopped("Input/output error")]

    def sync_log():
        if errors:
            raise errors.pop()

    copies = copies_of(side, OffsetTable(), file, sync_log)
    side.settled([side.item(2, deliver())])
    await copies.close()
    assert file.load() is None
    await copies.close()
    assert file.load() is not None


async def test_a_queue_that_cannot_be_read_delays_the_copy_and_not_the_stop(peer):
    side = await half_decided(peer)
    await side.sending.checkpoints.close()
    side = side.reopen()
    file = ConfigFile(side.files, "/store/config/delayOffset.json")
    copies = copies_of(side, OffsetTable(), file)
    side.settled([side.item(2, deliver())])
    side.files.faults.append(Fault("pread", errno.EIO, "consumequeue"))
    await copies.close()
    assert side.files.faults[0].count == 0
    assert file.load() is None
    await copies.close()
    assert file.load() is not None


async def test_cursors_are_copied_as_rocketmq_keeps_them_and_read_back_from_a_foreign_run(peer):
    side = await half_decided(peer)
    side.delayed(peer, b"third", level=3)
    offsets = OffsetTable()
    file = ConfigFile(side.files, "/store/config/delayOffset.json")
    copies = copies_of(side, offsets, file)
    await copies.close()
    assert file.load() is None
    copies = copies_of(side, offsets, file)
    side.settled([side.item(2, deliver())])
    await copies.close()
    content = file.load()
    assert content["offsetTable"] == {1: 3, 3: 0} or content["offsetTable"] == {"1": 3, "3": 0}
    assert b"{1:3,3:0}" in side.files.read_bytes("/store/config/delayOffset.json").replace(
        b"\n", b""
    ).replace(b"\t", b"")
    fresh = type(side.settling.table)(side.queues)
    take_over(side, fresh)
    assert fresh.of(SOURCE).cursor == 3


async def test_a_deletion_below_a_snapshot_takes_nothing_from_it(peer):
    side = SettlingSide()
    for body in (b"old", b"new"):
        side.send(peer, body=body)
        side.flush()
        if body == b"old":
            side.ask(peer, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})
            side.flush()
            await asyncio.sleep(0)
    side.topics.ensure("%DLQ%g", 1)
    side.settled([side.item(1, deliver("%DLQ%g"), topic="orders")], topic="orders", group="g")
    # A crash came between a checkpoint's snapshot and its note: the walk begins below the deletion.
    side.store.snapshots.save("settled", side.settling.table.snapshot(side.log.end), side.log.end)
    again = side.reopen()
    assert again.settling.table.is_settled(("orders", 0, "g"), 1)


async def test_decisions_continue_while_sends_are_refused_for_lack_of_space(peer):
    side = await half_decided(peer, decided=())
    side.log.mark_disk_full(full=True)
    side.send(peer)
    assert peer.answers[-1].ext["gantryCode"] == "DISK_FULL"
    assert side.settled([side.item(0, deliver())])[0].status == "settled"


async def test_items_read_from_a_cold_disk_are_settled_too(peer):
    side = await half_decided(peer, decided=())
    side.files.is_cold = True
    answers = side.settle([side.item(0, deliver()), side.item(1)])
    side.files.is_cold = False
    async with asyncio.timeout(30):
        while not answers:
            await asyncio.sleep(0.001)
            side.flush()
    assert [result.status for result in answers[0]] == ["settled", "settled"]
    assert side.outcomes() == [(b"m0", 0)]


async def test_deliveries_of_another_broker_are_in_the_log_from_then_on(peer):
    side = await half_decided(peer, decided=())
    side.files.replace_atomically("/store/config/delayOffset.json", b'{"offsetTable":{1:4,9:0,"x":3}}')
    take_over(side, side.settling.table)
    assert state(side) == (4, [])
    side.settling.log_foreign_floors()
    side.flush()
    side.settling.log_foreign_floors()
    side.flush()
    assert len(side.records(MARKS_TOPIC)) == 1
    side.files.remove("/store/config/delayOffset.json")
    again = side.reopen()
    assert state(again) == (4, [])
    assert again.settled([again.item(3, deliver())])[0].status == "already"
