"""A start that finds every derived file as it was left rebuilds nothing, and everything it loads is complete."""

import asyncio
import errno
import threading

import pytest
from disk_care_side import MIB, care_of
from leasing_side import LeasingSide, bodies, item
from sending_side import ScriptedPeer, SendingSide

from broker_store.log.checkpoint.checkpoint import Checkpoint
from broker_store.log.consume_queues.unit_journal import NOT_USED
from broker_store.log.files.simulated_files import Fault, SimulatedFiles
from broker_store.opening import queue_saving
from broker_store.opening.queue_note import QueueNote, Reason, what_is_missing
from gantry_wire.codes import GantryCode
from gantry_wire.messages.properties import index_key_hash
from gantry_wire.names import HALF_TOPIC
from gantry_wire.private_requests.leases import ItemKind, LeaseItemsHeader, pack_items

pytestmark = pytest.mark.anyio
EVER = 1 << 62
START_S = 1_700_000_000.0
ASYNC_TOPIC = {
    "topic": "orders", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6",
    "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false", "attributes": "+gantry.flush=async",
}  # fmt: skip
HALF = {"UNIQ_KEY": "HALF1", "TRAN_MSG": "true", "PGROUP": "pg"}


def mixed_side(flush):
    """A side whose topic `orders` is async, by its own attribute or by default, and whose system queues are sync."""
    side, peer = SendingSide(flush=flush), ScriptedPeer()
    if flush == "sync":
        side.ask(peer, 17, ASYNC_TOPIC)
    return side, peer


def is_indexed(side, topic, key):
    return bool(side.store.index.lookup(index_key_hash(topic, key), 0, EVER, 9))


async def stop(side):
    side.flush()
    await side.sending.checkpoints.close()
    side.log.close()


@pytest.mark.parametrize("flush", ["async", "sync"])
async def test_a_checkpoint_during_an_unflushed_message_covers_what_lies_before_it(flush):
    side, peer = mixed_side(flush)
    side.send(peer, body=b"old")
    side.flush()
    side.send(peer, body=b"later", properties={"UNIQ_KEY": "D1", "DELAY": "3"})
    side.end_turn()
    side.send(peer, body=b"plain")
    side.end_turn()
    await side.sending.checkpoints.take()
    side.flush()
    again = side.reopen(flush=flush)
    assert again.opening.rebuild_reason is None
    assert again.opening.began_at > 0
    assert [record.body for record in again.records()] == [b"old", b"plain"]
    assert len(again.records("SCHEDULE_TOPIC_XXXX", 2)) == 1


@pytest.mark.parametrize("turns", range(0, 42, 2))
async def test_a_topic_deleted_during_a_checkpoint_is_not_missed(turns):
    side, peer = SendingSide(), ScriptedPeer()
    for number in range(5):
        side.send(peer, "short", body=b"s%d" % number)
        side.send(peer, "orders", body=b"o%d" % number)
    side.flush()
    task = asyncio.ensure_future(side.sending.checkpoints.take())
    for _ in range(turns):
        await asyncio.sleep(0)
    side.ask(peer, 215, {"topic": "short"})
    side.flush()
    await task
    again = side.reopen()
    assert again.opening.rebuild_reason is None
    assert again.records("short") == []
    assert len(again.records("orders")) == 5


async def test_queue_files_that_are_lost_are_missed_though_another_topic_was_deleted():
    side, peer = SendingSide(), ScriptedPeer()
    for topic in ("short", "orders", "other"):
        side.send(peer, topic, body=topic.encode())
    side.flush()
    await side.sending.checkpoints.take()
    side.ask(peer, 215, {"topic": "short"})
    side.flush()
    side.files.remove_dir("/store/consumequeue/orders/0")
    again = side.reopen()
    assert again.opening.rebuild_reason is Reason.QUEUES
    assert [record.body for record in again.records("orders")] == [b"orders"]
    assert again.records("short") == []


@pytest.mark.parametrize("flush", ["async", "sync"])
@pytest.mark.parametrize("turns", [0, 1, 2, 5, 9])
async def test_the_index_takes_up_a_half_that_waited_for_its_flush_beside_a_checkpoint(flush, turns):
    side, peer = mixed_side(flush)
    side.send(peer, body=b"old", properties={"UNIQ_KEY": "OLD"})
    side.flush()
    side.send(peer, body=b"half", sys_flag=4, properties=HALF)
    side.end_turn()
    task = asyncio.ensure_future(side.sending.checkpoints.take())
    for _ in range(turns):
        await asyncio.sleep(0)
    side.send(peer, body=b"plain", properties={"UNIQ_KEY": "PLAIN"})
    side.end_turn()
    await task
    side.flush()
    assert is_indexed(side, HALF_TOPIC, "HALF1")
    for _ in range(2):
        side = side.reopen(flush=flush)
        assert side.opening.rebuild_reason is None
        assert is_indexed(side, HALF_TOPIC, "HALF1")
        assert [is_indexed(side, "orders", key) for key in ("OLD", "PLAIN")] == [True, True]
        await side.sending.checkpoints.take()


async def test_the_index_holds_what_is_visible_in_log_order():
    side, peer = mixed_side("async")
    side.topics.ensure("orders", 4)
    side.flush()
    positions = []
    put = side.store.index.put
    side.store.index.put = lambda entries: (positions.extend(entry[1] for entry in entries), put(entries))
    for number in range(6):
        if number % 3 == 1:
            side.send(peer, body=b"half", sys_flag=4, properties=HALF | {"UNIQ_KEY": f"H{number}"})
        else:
            side.send(peer, body=b"plain", properties={"UNIQ_KEY": f"P{number}"})
        side.end_turn()
    assert len(positions) == 1, "what lies behind a half that waits is held back"
    side.flush()
    assert positions == sorted(positions)
    assert len(positions) == 6


async def test_after_a_power_cut_under_async_the_index_includes_what_is_stored_again():
    files = SimulatedFiles()
    side, peer = SendingSide(files, flush="async"), ScriptedPeer()
    side.send(peer, body=b"first")
    side.flush()
    index = side.store.index
    jobs = index.checkpoint

    def after_more():  # the log is synced; these are visible, and in the index, before they are durable
        for number in range(40):
            side.send(peer, body=b"more", properties={"UNIQ_KEY": f"MORE{number:03d}"})
            side.end_turn()
        return jobs()

    index.checkpoint = after_more
    await side.sending.checkpoints.take()
    assert side.log.written_end > side.log.durable_end
    for disk in files.crash_states(25, seed=3):
        cut = SendingSide(disk, START_S + 10, flush="async")
        assert cut.opening.rebuild_reason is None
        assert cut.store.index.end_position < cut.log.end
        for number in range(20):
            cut.send(ScriptedPeer(), body=b"after", properties={"UNIQ_KEY": f"AFTER{number:03d}"})
            cut.end_turn()
        cut.flush()
        again = cut.reopen(flush="async")
        for one in (cut, again):
            missing = [number for number in range(20) if not is_indexed(one, "orders", f"AFTER{number:03d}")]
            assert missing == []


async def test_a_segment_that_is_deleted_while_a_message_of_it_waits_for_its_flush_makes_no_rebuild(
    monkeypatch,
):
    """The unit of such a message came into its queue when retention had cut the queue already."""
    monkeypatch.setattr(SimulatedFiles, "free_bytes", lambda _self, _path: 1)  # deletion is forced
    side, peer = SendingSide(segment_bytes=MIB, flush="async"), ScriptedPeer()
    side.ask(peer, 17, {**ASYNC_TOPIC, "topic": "synced", "attributes": "+gantry.flush=sync"})
    side.send(peer, topic="synced")
    for _ in range(5):
        side.end_turn()
        side.send(peer, body=b"x" * 250_000)
    side.end_turn()
    care = care_of(side)
    side.store.states.config.clear()  # as if the topics were recorded again in a later segment
    await care.delete_expired()
    side.flush()
    side.store.states.config.clear()
    await care.delete_expired()
    assert side.log.min_position == MIB
    await stop(side)
    again = side.reopen()
    assert again.opening.rebuild_reason is None
    assert again.queues.find("synced", 0).min_offset == 1


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
async def test_no_checkpoint_counts_after_a_sync_of_the_index_failed(error):
    side, peer = SendingSide(), ScriptedPeer()
    for number in range(40):
        side.send(peer, body=b"a", properties={"UNIQ_KEY": f"A{number:03d}"})
    side.flush()
    side.files.faults.append(Fault("sync", error, "/index/"))
    for _ in range(2):
        with pytest.raises(OSError, match="sync failed"):
            await side.sending.checkpoints.take()
    for disk in side.files.crash_states(15, seed=1):
        cut = SendingSide(disk, START_S + 10)
        assert [number for number in range(40) if not is_indexed(cut, "orders", f"A{number:03d}")] == []


async def test_a_message_given_back_stays_away_though_a_later_acknowledgement_was_visible_first():
    side = LeasingSide(flush="async")
    side.put("later", "done", "rest")
    given = side.lease(max_messages=3)
    header = LeaseItemsHeader(group="g", topic="orders")
    back = side.ask(side.client, GantryCode.ACK, header, pack_items([item(given[0], ItemKind.NACK, 60_000)]))
    for _ in range(20):
        await asyncio.sleep(0.001)
        side.end_turn()
    side.ask(side.client, GantryCode.ACK, header, pack_items([item(given[1], ItemKind.ACK)]))
    side.end_turn()
    await side.sending.checkpoints.take()
    side.flush()
    async with asyncio.timeout(60):
        while side.answer_to(back) is None:
            await asyncio.sleep(0.001)
            side.end_turn()
    again = side.reopen(flush="async")
    assert again.opening.rebuild_reason is None
    assert bodies(again.lease(max_messages=10)) == ["rest"]


async def test_a_store_that_never_had_a_topic_of_a_user_rebuilds_nothing():
    side, peer = SendingSide(), ScriptedPeer()
    side.send(peer, topic="RMQ_SYS_TRACE_TOPIC")
    side.flush()
    await side.sending.checkpoints.take()
    assert not side.files.exists("/store/config/topics.json")
    assert not side.reopen().opening.is_rebuild


async def test_a_kill_before_the_first_checkpoint_rebuilds_nothing():
    side = SendingSide()
    side.send(ScriptedPeer(), body=b"x")
    side.flush()
    again = side.reopen()
    assert again.opening.rebuild_reason is None
    assert len(again.records()) == 1


async def test_the_confirm_offset_does_not_go_back_when_a_checkpoint_is_written_late(monkeypatch):
    side, peer = SendingSide(), ScriptedPeer()
    side.send(peer, body=b"m0")
    side.flush()
    write = Checkpoint.write

    def late(self, *arguments):  # in the thread: the loop runs between the capture and the write
        sent = threading.Event()
        loop.call_soon_threadsafe(lambda: (send_more(), sent.set()))
        assert sent.wait(60)
        write(self, *arguments)

    def send_more():
        for number in range(1, 8):
            side.send(peer, body=b"m%d" % number)
            side.flush()

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(Checkpoint, "write", late)
    await side.sending.checkpoints.take()
    monkeypatch.undo()
    at = next(record.position for record in side.records() if record.body == b"m2") + 88
    segment = side.files.open(side.log.segments[0].path)
    segment.pwrite(bytes([segment.pread(1, at)[0] ^ 1]), at)
    again = side.reopen()
    assert [record.body for record in again.records()] == [b"m0", b"m1", *(b"m%d" % n for n in range(3, 8))]


@pytest.mark.parametrize(
    "changed",
    [
        {"index_slots": 2048},
        {"index_slots": 8192},
        {"index_entries": 256},
        {"index_slots": 4096 - 5 * 64, "index_entries": 512 + 64},  # files keep their size
    ],
)
async def test_an_index_of_other_settings_is_rebuilt_once(changed):
    layout = {"index_slots": 4096, "index_entries": 512}
    side, keys = SendingSide(**layout), [f"A{number:03d}" for number in range(200)]
    for key in keys:
        side.send(ScriptedPeer(), body=b"a", properties={"UNIQ_KEY": key})
    await stop(side)
    again = side.reopen(**layout | changed)
    assert again.opening.rebuild_reason is Reason.INDEX
    assert [key for key in keys if not is_indexed(again, "orders", key)] == []
    await stop(again)
    third = again.reopen(**layout | changed)
    assert third.opening.rebuild_reason is None
    assert [key for key in keys if not is_indexed(third, "orders", key)] == []


async def test_a_repeat_with_a_transient_property_is_known_before_and_after_a_crash():
    side, codes = SendingSide(), []
    sent = {"UNIQ_KEY": "A", "__GANTRY_KEY": "k", "__RMQ.TRANSIENT.x": "1"}
    for number in range(4):
        peer = ScriptedPeer()
        side.send(peer, body=b"x", properties=sent | {"__RMQ.TRANSIENT.x": str(number)})
        side.flush()
        codes += [(answer.code, answer.ext.get("duplicate")) for answer in peer.answers]
        if number:
            side = side.reopen()
    assert codes == [(0, None), *[(0, "true")] * 3]


@pytest.mark.parametrize("is_made_again", [False, True])
async def test_a_deleted_topic_does_not_come_back_after_a_power_cut(is_made_again):
    side, peer = SendingSide(), ScriptedPeer()
    for number in range(3):
        side.send(peer, "short", body=b"deleted%d" % number)
    side.flush()
    await side.sending.checkpoints.take()
    side.ask(peer, 215, {"topic": "short"})
    side.flush()
    side.send(peer, "orders", body=b"other")
    side.flush()
    await side.save_topics()
    await side.sending.checkpoints.take()
    if is_made_again:
        side.send(peer, "short", body=b"new")
        side.flush()
    wanted = [(3, b"new")] if is_made_again else []
    for disk in side.files.crash_states(20, seed=1):
        cut = SendingSide(disk, START_S + 10)
        assert cut.opening.rebuild_reason is None
        assert [(record.queue_offset, record.body) for record in cut.records("short")] == wanted
        assert (cut.topics.find("short") is not None) is is_made_again
        assert len(cut.records("orders")) == 1


@pytest.mark.parametrize("has_newer_filter", [False, True])
async def test_a_rebuild_after_retention_keeps_the_filters_of_groups(has_newer_filter):
    side = LeasingSide(segment_bytes=1 << 20)
    side.put("old-red", TAGS="red")
    side.ack(*side.lease(expression_type="TAG", expression="red"))
    for number in range(9):
        side.put(f"{number}" + "x" * 240_000, TAGS="red")
        side.ack(*side.lease(max_messages=32))
    await side.sending.checkpoints.take()
    side.log.drop_first_segment()
    side.log.remove_dropped()
    if has_newer_filter:
        side.lease(expression_type="TAG", expression="blue", change_filter=True)
        side.flush()
    side.files.remove("/store/gantry/queues.json")
    side.files.remove("/store/gantry/queues.json.bak")
    again = side.reopen()
    assert again.opening.is_rebuild
    wanted = "blue" if has_newer_filter else "red"
    assert again.store.states.leases.find("g", "orders").filter.expression == wanted
    again.put("new-blue", TAGS="blue")
    again.put("new-red", TAGS="red")
    assert bodies(again.lease(max_messages=32))[-1:] == [f"new-{wanted}"]


@pytest.mark.parametrize("has_checkpoint", [True, False])
@pytest.mark.parametrize("was_on_before", [True, False])
async def test_keys_sent_while_the_index_was_off_are_found_when_it_is_on_again(has_checkpoint, was_on_before):
    side, keys = SendingSide(index_enable=was_on_before), ["BEFORE", "OFF", "ON"]
    for key in keys:
        side.send(ScriptedPeer(), body=b"x", properties={"UNIQ_KEY": key})
        side.flush()
        if key != "OFF" or has_checkpoint:
            await side.sending.checkpoints.take()
        side = side.reopen(index_enable=key != "BEFORE")
        if key == "OFF":
            is_lacking = has_checkpoint or not was_on_before
            assert side.opening.rebuild_reason is (Reason.INDEX if is_lacking else None)
        else:
            assert side.opening.rebuild_reason is None
    assert [key for key in keys if is_indexed(side, "orders", key)] == keys
    assert side.store.index.entries == len(keys)


async def test_an_empty_index_is_missed_only_where_it_was_off():
    side = SendingSide()
    for entries, losses in ((0, []), (-1, [Reason.INDEX])):
        note = QueueNote(100, min_position=0, index_entries=entries)
        found = what_is_missing(note, side.queues, side.store.index, 0)
        assert [loss.reason for loss in found] == losses


async def test_a_log_that_retention_cut_beyond_its_checkpoint_misses_no_units(monkeypatch):
    monkeypatch.setattr(queue_saving, "QUEUES_WITHOUT_JOURNAL_MAX", 0)
    side, peer = SendingSide(segment_bytes=65_536), ScriptedPeer()
    for _ in range(3):
        side.send(peer, body=b"." * 5_000)
        side.flush()
        await side.sending.checkpoints.take()
    assert side.store.unit_journal.start != NOT_USED
    while len(side.log.segments) < 2:
        side.send(peer, body=b"." * 5_000)
        side.flush()
    side.log.drop_first_segment()
    side.log.remove_dropped()
    again = side.reopen()
    assert again.opening.rebuild_reason is None
    assert again.queues.find("orders", 0).next_offset == side.queues.find("orders", 0).next_offset


async def test_a_checkpoint_during_retention_does_not_miss_what_retention_removes_after_it():
    side, peer = SendingSide(segment_bytes=65_536), ScriptedPeer()
    while len(side.log.segments) < 2:
        side.send(peer, body=b"." * 5_000, properties={"UNIQ_KEY": f"U{len(peer.answers)}"})
        side.flush()
    side.log.drop_first_segment()
    side.log.remove_dropped()
    await side.sending.checkpoints.take()
    for queue in side.queues.all():
        queue.units.delete_before(side.log.min_position)
    side.store.index.delete_before(side.log.min_position)
    again = side.reopen()
    assert again.opening.rebuild_reason is None
    assert again.queues.find("orders", 0).min_offset == side.queues.find("orders", 0).min_offset > 0
