"""The derived state of a store is never ahead of its log and never behind: after any crash it equals the log."""

import asyncio

import pytest
from leasing_side import LeasingSide, bodies
from sending_side import START_S, ScriptedPeer, SendingSide
from settling_side import SettlingSide

from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.headers.messages import UpdateConsumerOffsetHeader
from gantry_wire.messages.properties import index_key_hash
from gantry_wire.names import HALF_TOPIC
from gantry_wire.private_requests.settling import SettleOutput

pytestmark = pytest.mark.anyio
RED = {"expression_type": "TAG", "expression": "red"}
BLUE = {"expression_type": "TAG", "expression": "blue", "change_filter": True}
ASYNC_TOPIC = {
    "topic": "quick", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6",
    "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false", "attributes": "+gantry.flush=async",
}  # fmt: skip


async def stop(side):
    side.flush()
    await side.sending.checkpoints.close()
    side.log.close()


def commit(side, offset):
    header = UpdateConsumerOffsetHeader(consumer_group="g", topic="orders", queue_id=0, commit_offset=offset)
    side.ask(side.client, RequestCode.UPDATE_CONSUMER_OFFSET, header, oneway=True)


async def test_a_new_filter_applies_and_is_in_checkpoints_once_it_is_in_the_log():
    side = LeasingSide()
    side.put("red", TAGS="red")
    side.ack(*side.lease(**RED))
    side.put("blue", TAGS="blue")
    assert side.lease_raw(**BLUE) is None, "answered before the filter is durable"
    await side.sending.checkpoints.take()
    for disk in (side.files.killed(), *side.files.crash_states(4)):
        again = LeasingSide(disk, START_S + 10)
        assert again.store.states.leases.find("g", "orders").filter.expression == "red"
    side.flush()
    assert bodies(side.lease(**BLUE | {"change_filter": False})) == []
    assert side.reopen().store.states.leases.find("g", "orders").filter.expression == "blue"


async def test_of_two_first_receives_with_different_filters_the_second_is_refused():
    side = LeasingSide()
    side.put("red", TAGS="red")
    assert side.lease_raw(**RED) is None
    refused = side.lease_raw(**BLUE | {"change_filter": False})
    assert refused is not None
    assert refused.code == ResponseCode.ILLEGAL_OPERATION
    side.flush()
    assert [answer.code for answer in side.client.answers] == [refused.code, 0]


async def test_two_receives_that_change_the_filter_at_once_are_both_answered():
    side = LeasingSide()
    side.put("red", TAGS="red")
    side.put("blue", TAGS="blue")
    for fields in (RED | {"change_filter": True}, BLUE):
        assert side.lease_raw(**fields) is None
    side.flush()
    assert [answer.code for answer in side.client.answers] == [0, 0]
    assert side.store.states.leases.find("g", "orders").filter.expression == "blue"


@pytest.mark.parametrize("has_checkpoint", [False, True])
async def test_an_offset_that_is_committed_back_one_way_holds_after_a_crash(has_checkpoint):
    side = LeasingSide()
    side.put("a", "b", "c")
    side.ack(*side.lease())
    commit(side, 1)
    side.flush()
    if has_checkpoint:
        await side.sending.checkpoints.take()
    await side.finish(side.consuming.keeper.save())
    assert bodies(side.reopen().lease()) == ["b", "c"]


async def test_notes_of_a_group_in_flight_at_its_deletion_are_dropped_with_it():
    side = LeasingSide()
    side.set_group(attributes={"gantry.receive.start": "latest"})
    side.put("a", "b")
    assert side.lease_raw() is None
    side.ask(side.client, RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "g", "cleanOffset": "true"})
    side.flush()
    await side.sending.checkpoints.take()
    assert bodies(side.reopen().lease()) == ["a", "b"]
    for name in ("queues.json", "queues.json.bak", "leases.snapshot"):
        side.files.remove(f"/store/gantry/{name}")
    rebuilt = side.reopen()
    assert rebuilt.opening.is_rebuild
    assert bodies(rebuilt.lease()) == ["a", "b"]


async def test_a_deleted_group_is_dropped_from_checkpoints_once_the_log_has_it():
    side = LeasingSide()
    side.put("red", TAGS="red")
    side.ack(*side.lease(**RED))
    side.ask(side.client, RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "g", "cleanOffset": "false"})
    await side.sending.checkpoints.take()
    assert side.reopen().store.states.leases.find("g", "orders").filter.expression == "red"
    side.flush()
    assert side.store.states.leases.find("g", "orders") is None
    assert side.reopen().store.states.leases.find("g", "orders") is None


async def test_an_acknowledgement_that_follows_the_deletion_of_its_group_counts_as_the_log_says():
    side = LeasingSide()
    side.put("a", "b", "c")
    first, second, _ = side.lease()
    side.ask(side.client, RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "g", "cleanOffset": "false"})
    side.lease_raw()  # creates the group again
    side.ack(first, second)  # in one batch with the deletion, and after it
    await side.sending.checkpoints.take()
    from_checkpoint = side.reopen()
    side.files.remove("/store/gantry/leases.snapshot")
    rebuilt = side.reopen()
    assert rebuilt.opening.is_rebuild
    assert not from_checkpoint.opening.is_rebuild
    known = [opened.store.states.leases.find("g", "orders") for opened in (from_checkpoint, rebuilt)]
    undone = [None if one is None else list(one.queues[0].table.undone()) for one in known]
    assert undone[0] == undone[1] is not None


async def test_leases_that_expired_and_are_logged_after_the_deletion_of_their_group_count_as_the_log_says():
    side = LeasingSide()
    side.put("a")
    side.lease(invisible_ms=1000)
    side.ask(side.client, RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "g", "cleanOffset": "false"})
    side.pass_time(2)
    for _ in range(20):
        side.leasing.tick()
    side.flush()
    await side.sending.checkpoints.take()
    from_checkpoint = side.reopen()
    side.files.remove("/store/gantry/leases.snapshot")
    rebuilt = side.reopen()
    assert rebuilt.opening.is_rebuild
    known = [opened.store.states.leases.find("g", "orders") for opened in (from_checkpoint, rebuilt)]
    attempts = [None if one is None else list(one.queues[0].table.known_attempts()) for one in known]
    assert attempts[0] == attempts[1] == [(0, 1, 1)]


async def test_a_key_that_is_visible_beyond_a_checkpoint_is_not_missed_after_it():
    side, peer = SendingSide(), ScriptedPeer()
    side.ask(peer, 17, ASYNC_TOPIC)
    side.send(peer, "orders", body=b"waits")
    side.end_turn()
    side.pass_time(1)
    side.send(peer, "quick", body=b"visible", properties={"UNIQ_KEY": "Q", "__GANTRY_KEY": "q"})
    side.end_turn()
    await side.sending.checkpoints.take()
    side.flush()
    again = side.reopen()
    assert again.opening.rebuild_reason is None
    assert len(again.store.window) == 1


async def test_the_store_time_of_a_checkpoint_does_not_go_back_to_a_message_that_waited():
    side, peer = SendingSide(), ScriptedPeer()
    side.ask(peer, 17, ASYNC_TOPIC)
    side.send(peer, "orders", body=b"waits")
    side.end_turn()
    side.pass_time(5)
    side.send(peer, "quick", body=b"visible at once")
    side.end_turn()
    side.flush()
    newest_ms = side.records("quick")[0].store_timestamp
    assert newest_ms > side.records("orders")[0].store_timestamp
    await side.sending.checkpoints.take()
    assert SendingSide(side.files.killed(), START_S - 3600).clock.now_ms() >= newest_ms


async def test_store_time_continues_after_a_run_without_traffic():
    side = SendingSide()
    side.send(ScriptedPeer(), body=b"x")
    for _ in range(3):
        await stop(side)
        side = SendingSide(side.files, START_S - 3600)
        assert side.clock.now_ms() >= side.records()[0].store_timestamp


async def disks_within_a_checkpoint(side):
    """Take a checkpoint. Returns the disks that a kill before each of its steps leaves."""
    disks, step = [], side.files.step

    def look(operation, path):
        disks.append(side.files.killed())
        step(operation, path)

    side.files.step = look
    await side.sending.checkpoints.take()
    side.files.step = step
    assert len(disks) > 10
    return disks


async def test_store_time_continues_wherever_in_a_checkpoint_a_crash_comes():
    side, peer = SendingSide(), ScriptedPeer()
    side.send(peer, body=b"old")
    side.flush()
    await side.sending.checkpoints.take()
    side.pass_time(60)
    side.send(peer, body=b"new")
    side.flush()
    newest_ms = side.records()[-1].store_timestamp
    for disk in await disks_within_a_checkpoint(side):
        assert SendingSide(disk, START_S - 3600).clock.now_ms() >= newest_ms


async def test_no_key_is_missed_wherever_in_a_checkpoint_a_crash_comes():
    window = {"idempotency_window_seconds": 10}
    side = SendingSide(**window)
    for key in ("old", "new"):
        side.pass_time(20)
        side.send(ScriptedPeer(), body=b"x", properties={"UNIQ_KEY": key, "__GANTRY_KEY": key})
        side.flush()
    for disk in await disks_within_a_checkpoint(side):
        again = SendingSide(disk, side.wall_s, **window)
        assert again.opening.rebuild_reason is None
        peer = ScriptedPeer()
        again.send(peer, body=b"x", properties={"UNIQ_KEY": "again", "__GANTRY_KEY": "new"})
        again.flush()
        assert peer.answers[0].ext["duplicate"] == "true"


async def test_a_note_of_deleted_topics_counts_nothing_that_a_power_cut_takes():
    side, peer = SendingSide(flush="async"), ScriptedPeer()
    side.send(peer, "short", body=b"x")
    side.flush()
    side.ask(peer, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "short"})
    side.flush()
    side.send(peer, body=b"y", properties={"UNIQ_KEY": "Y", "__GANTRY_KEY": "y"})
    side.end_turn()
    saved = []
    side.sending._note_saver.when_saved(saved.append)
    async with asyncio.timeout(60):
        while not saved:
            await asyncio.sleep(0.001)
    for disk in side.files.crash_states(20, seed=1):
        cut = SendingSide(disk, START_S + 10, flush="async")
        assert cut.opening.rebuild_reason is None
        assert cut.records("short") == []


async def test_a_waiting_half_does_not_recreate_its_deleted_topic():
    side, peer = SettlingSide(), ScriptedPeer()
    half = {"UNIQ_KEY": "H", "TRAN_MSG": "true", "PGROUP": "pg"}
    side.send(peer, "short", body=b"half", sys_flag=4, properties=half)
    side.flush()
    side.ask(peer, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "short"})
    side.flush()
    checked = SettleOutput(HALF_TOPIC, 0, set={"TRANSACTION_CHECK_TIMES": "1"})
    assert side.settled([side.item(0, checked, topic=HALF_TOPIC)], topic=HALF_TOPIC)[0].status == "settled"
    await side.save_topics()
    again = side.reopen()
    assert len(again.records(HALF_TOPIC)) == 2
    assert again.topics.find("short") is None


async def test_queues_of_a_topic_made_again_hold_nothing_of_the_deleted_one_after_a_power_cut():
    side, peer = SendingSide(), ScriptedPeer()
    for queue_id in (0, 1):
        side.send(peer, "short", body=b"deleted", queue_id=queue_id)
    side.flush()
    await side.sending.checkpoints.take()
    side.ask(peer, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "short"})
    side.flush()
    side.ask(peer, RequestCode.UPDATE_AND_CREATE_TOPIC, ASYNC_TOPIC | {"topic": "short"})  # with one queue
    side.send(peer, "short", body=b"new", queue_id=0)
    side.flush()
    await side.save_topics()
    await side.sending.checkpoints.take()
    for disk in side.files.crash_states(30, seed=2):
        cut = SendingSide(disk, START_S + 10)
        assert cut.opening.rebuild_reason is None
        assert cut.queues.find("short", 1) is None
        assert [record.body for record in cut.records("short", 0)] == [b"new"]


async def test_a_deletion_does_not_hide_that_a_rebuild_of_the_index_was_cut_off():
    side, peer = SendingSide(), ScriptedPeer()

    def send(numbers):
        for number in numbers:
            side.send(peer, "orders", body=b"x", properties={"UNIQ_KEY": f"A{number}"})
        side.flush()

    side.send(peer, "short", body=b"x")
    send(range(3))
    await stop(side)
    side = side.reopen()
    send(range(3, 9))
    side.ask(peer, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "short"})
    side.flush()
    await side.sending._note_saver.close()
    side = side.reopen(index_slots=128)
    assert side.opening.is_rebuild
    send(range(9, 40))
    for disk in await disks_within_a_checkpoint(side):
        again = SendingSide(disk, START_S + 10, index_slots=128)
        for number in range(40):
            assert again.store.index.lookup(index_key_hash("orders", f"A{number}"), 0, 1 << 62, 9), number
