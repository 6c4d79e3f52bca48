"""Receive and acknowledge in a store over a simulated disk: deliveries, their counts, and the state after a restart."""

import asyncio

import pytest
from leasing_side import LeasingSide, bodies, given, item

from broker_store.leases import message_moves
from broker_store.leases.queue_scan import LOOK_STEPS_MAX, RECORD_STEPS
from broker_store.settling import settling
from gantry_wire.bodies.cluster import TopicConfig
from gantry_wire.codes import GantryCode, ResponseCode
from gantry_wire.names import TIMER_TOPIC
from gantry_wire.private_requests.leases import (
    ItemKind,
    ItemStatus,
    LeaseItem,
    LeaseItemsHeader,
    WaitReplyHeader,
    pack_items,
)
from gantry_wire.records.units import CONSUME_QUEUE_UNIT_BYTES

pytestmark = pytest.mark.anyio
DONE, EXPIRED, INVALID = ItemStatus.DONE, ItemStatus.EXPIRED, ItemStatus.INVALID


@pytest.fixture
async def side(anyio_backend):
    return LeasingSide()


async def test_a_leased_message_is_delivered_to_no_other_and_comes_back_when_the_lease_ends(side):
    side.put("a", "b", "c")
    first = side.lease(max_messages=2, invisible_ms=10_000)
    assert bodies(first) == ["a", "b"]
    assert bodies(side.lease()) == ["c"]
    assert side.lease() == []
    side.pass_time(9.9)
    assert side.lease() == []
    side.pass_time(0.2)
    again = side.lease()
    assert bodies(again) == ["a", "b"]
    assert [one.attempt for one in again] == [2, 2]


async def test_acknowledged_messages_move_the_offset_and_are_never_redelivered(side):
    side.put(*"abcd")
    messages = side.lease()
    assert side.ack(messages[1]) == [DONE]
    assert side.committed() == 0
    assert side.ack(messages[0], messages[2]) == [DONE, DONE]
    assert side.committed() == 3
    side.pass_time(31)
    assert bodies(side.lease()) == ["d"]


async def test_an_acknowledgement_is_answered_only_when_it_is_durable(side):
    side.put("a")
    (message,) = side.lease()
    header = LeaseItemsHeader(group="g", topic="orders")
    opaque = side.ask(side.client, GantryCode.ACK, header, pack_items([item(message, ItemKind.ACK)]))
    side.end_turn()
    assert side.answer_to(opaque) is None
    assert side.committed() == 0
    side.appends.synced(side.log.sync())
    assert side.answer_to(opaque).code == 0
    assert side.committed() == 1


async def test_repeats_and_late_acknowledgements_are_reported(side):
    side.put("a", "b")
    one, two = side.lease(invisible_ms=5000)
    assert side.ack(one) == [DONE]
    assert side.ack(one) == [DONE]
    side.pass_time(6)
    assert side.ack(two) == [EXPIRED]
    (again,) = side.lease()
    assert side.ack(two) == [EXPIRED]
    assert side.ack(again) == [DONE]


async def test_an_item_that_names_no_message_is_invalid(side):
    side.put("a")
    side.lease()
    items = [LeaseItem(ItemKind.ACK, 0, 9, 0, 1), LeaseItem(ItemKind.ACK, 1, 0, 0, 1)]
    assert side.settle(*items) == [INVALID, INVALID]
    lease = side.store.boot_count << 32
    assert side.settle(LeaseItem(ItemKind.ACK, 0, 0, 0, lease), group="other") == [INVALID]


async def test_a_message_given_back_comes_at_once_or_after_its_delay(side):
    side.put("a", "b")
    one, two = side.lease()
    assert side.nack(one) == [DONE]
    assert side.nack(two, delay_ms=5000) == [DONE]
    assert bodies(side.lease()) == ["a"]
    side.pass_time(4.9)
    assert side.lease() == []
    side.pass_time(0.2)
    (late,) = side.lease()
    assert (late.body, late.attempt) == ("b", 2)


async def test_an_extension_keeps_a_message_and_a_short_one_frees_it(side):
    side.put("a")
    (message,) = side.lease(invisible_ms=5000)
    assert side.extend(message, invisible_ms=60_000) == [DONE]
    side.pass_time(30)
    assert side.lease() == []
    assert side.extend(message, invisible_ms=1) == [DONE]
    side.pass_time(0.1)
    assert bodies(side.lease()) == ["a"]
    assert side.extend(message) == [EXPIRED]


async def test_a_delivery_that_reached_no_client_is_due_at_once_and_does_not_count(side):
    side.put("a")
    (message,) = side.lease()
    side.settle(LeaseItem(ItemKind.RELEASE, 0, 0, 0, message.lease))
    (again,) = side.lease()
    assert again.attempt == 1


async def test_after_a_restart_all_that_was_not_acknowledged_is_due_with_its_attempts(side):
    side.put(*"abcdef")
    messages = side.lease(invisible_ms=1000)
    side.ack(messages[0], messages[3])
    side.pass_time(2)
    again = side.lease(max_messages=2)
    assert bodies(again) == ["b", "c"]
    side.note_failures()
    side.nack(again[1])
    restarted = side.reopen()
    back = restarted.lease()
    assert [(one.body, one.attempt) for one in back] == [("b", 2), ("c", 3), ("e", 2), ("f", 2)]
    assert restarted.committed() == 1


@pytest.mark.parametrize("more", [-16, -1, 1, 64])
async def test_a_damaged_unit_of_an_earlier_run_takes_one_message_and_cuts_no_other_bytes_out_of_the_log(
    side, more
):
    side.put("a", "b")
    side.put("of another queue", queue_id=1)
    side.put("c", "d")
    await side.sending.checkpoints.take()
    restarted = side.reopen()
    folder = f"{restarted.settings.store_dir}/consumequeue/orders/0"
    queue = f"{folder}/{restarted.files.listdir(folder)[0]}"
    size_at = CONSUME_QUEUE_UNIT_BYTES + 8
    size = int.from_bytes(restarted.files.content(queue)[size_at : size_at + 4], "big")
    restarted.files.write_at(queue, size_at, (size + more).to_bytes(4, "big"))
    restarted.lease_raw(max_messages=4)  # the damage is looked at in a thread
    restarted.flush()
    async with asyncio.timeout(10):
        while not restarted.client.answers:
            await asyncio.sleep(0.005)
    assert bodies(given(restarted.client.answers[-1])) == ["a", "c", "d", "of another queue"]


@pytest.mark.parametrize("closes", [True, False])
async def test_a_checkpoint_keeps_all_of_it(side, closes):
    side.put(*"abcdef")
    messages = side.lease(expression_type="TAG", expression="*")
    side.ack(messages[0], messages[2])
    side.nack(messages[4])
    await (side.sending.checkpoints.close() if closes else side.sending.checkpoints.take())
    restarted = side.reopen()
    back = restarted.lease()
    assert [(one.body, one.attempt) for one in back] == [("b", 2), ("d", 2), ("e", 2), ("f", 2)]
    assert restarted.committed() == 1


async def test_a_filter_belongs_to_the_group_and_its_offset_passes_what_is_not_wanted(side):
    side.put("a", "b", TAGS="x")
    side.put("c", TAGS="y")
    side.put("d", TAGS="x")
    found = side.lease(expression_type="TAG", expression="y || z")
    assert bodies(found) == ["c"]
    side.ack(*found)
    assert side.committed() == 4
    refused = side.lease_raw(expression_type="TAG", expression="x")
    assert refused.ext["gantryCode"] == "FILTER_CONFLICT"
    assert side.lease() == []
    side.put("e", TAGS="x")
    assert bodies(side.lease(expression_type="TAG", expression="x", change_filter=True)) == ["e"]
    side.flush()
    again = side.reopen()
    assert again.lease_raw(expression_type="TAG", expression="y").code == ResponseCode.ILLEGAL_OPERATION


async def test_tags_that_only_share_a_hash_are_not_mixed_up(side):
    side.put("one", TAGS="Aa")
    side.put("two", TAGS="BB")
    assert bodies(side.lease(expression_type="TAG", expression="BB")) == ["two"]


async def test_sql_filters_check_properties(side):
    side.put("small", size="3")
    side.put("large", size="30")
    assert bodies(side.lease(expression_type="SQL92", expression="size > 10")) == ["large"]
    refused = side.lease_raw(group="h", expression_type="SQL92", expression="size >")
    assert refused.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


async def test_one_receive_checks_no_more_than_its_budget_and_the_next_continues(side):
    count, queues = 400, 4
    for queue_id in range(queues):
        side.put(*[f"{n}" for n in range(count)], queue_id=queue_id, n="1")
        side.put(f"wanted {queue_id}", queue_id=queue_id, n="2")
    long = " OR ".join(f"n = '{number}'" for number in range(2, 500))
    steps, receives, found = RECORD_STEPS + 498, 0, []
    while len(found) < queues:
        found += bodies(side.lease(expression_type="SQL92", expression=long))
        receives += 1
        assert receives < 1000
    assert sorted(found) == [f"wanted {queue_id}" for queue_id in range(queues)]
    assert receives >= queues * count * steps // (LOOK_STEPS_MAX + steps)


async def test_a_poisoned_key_blocks_only_itself_and_is_a_dead_letter_at_last(side):
    side.set_group(attributes={"gantry.receive.order": "shardingKey"}, retry_max_times=2)
    side.put("bad1", "bad2", __SHARDINGKEY="bad")
    side.put("good1", "good2", __SHARDINGKEY="good")
    side.put("free")
    first = side.lease()
    assert bodies(first) == ["bad1", "good1", "free"]
    side.ack(*first[1:])
    (good2,) = side.lease()
    assert good2.body == "good2"
    side.ack(good2)
    side.nack(first[0], delay_ms=1000, reasons='{"0":"no such customer"}')
    assert side.lease() == []
    side.pass_time(1.1)
    (bad1,) = side.lease()
    assert (bad1.body, bad1.attempt) == ("bad1", 2)
    side.nack(bad1)
    (bad1,) = side.lease()
    assert side.lease() == []
    side.nack(bad1)
    await settled(side)
    (dead,) = side.records("%DLQ%g")
    assert dead.body == b"bad1"
    properties = dead.property_map()
    assert properties["__GANTRY_DLQ_REASON"] == "no such customer"
    assert properties["__GANTRY_DLQ_ATTEMPTS"] == "3"
    assert properties["__GANTRY_ORIGIN"] == "orders:0:0"
    assert bodies(side.lease()) == ["bad2"]
    assert side.reopen().committed() is None
    again = side.reopen()
    assert bodies(again.lease()) == ["bad2"]
    assert again.committed() == 1


async def test_a_dead_letter_whose_unit_cannot_be_read_is_tried_again(side, monkeypatch):
    failures = [OSError(5, "Input/output error")]
    right = settling.look_up

    def look_up(*arguments):
        if failures:
            raise failures.pop()
        return right(*arguments)

    monkeypatch.setattr(settling, "look_up", look_up)
    monkeypatch.setattr(message_moves, "AGAIN_SECONDS", 0.01)
    side.set_group(retry_max_times=0)
    side.put("bad")
    side.nack(*side.lease())
    async with asyncio.timeout(20):
        while not side.records("%DLQ%g"):
            await settled(side)
    assert not failures


async def settled(side):
    """Let the dead-letter tasks run, and flush what they write."""
    for _ in range(6000):
        await asyncio.sleep(0.005)
        side.flush()
        if not side.leasing._moves._tasks and side.appends.is_idle:
            return
    raise AssertionError("not settled")


async def test_a_message_given_back_for_long_waits_elsewhere_and_comes_back_through_the_retry_topic(side):
    side.put("a", "b")
    one, two = side.lease()
    header = LeaseItemsHeader(group="g", topic="orders")
    opaque = side.ask(side.client, GantryCode.ACK, header, pack_items([item(one, ItemKind.NACK, 3_600_000)]))
    await settled(side)
    assert list(side.answer_to(opaque).body) == [DONE]
    side.ack(two)
    assert side.committed() == 2
    (waiting,) = side.records("rmq_sys_wheel_timer")
    properties = waiting.property_map()
    assert waiting.body == b"a"
    assert waiting.reconsume_times == 1
    assert properties["REAL_TOPIC"] == "%RETRY%g"
    assert properties["RETRY_TOPIC"] == "orders"
    assert int(properties["TIMER_OUT_MS"]) >= side.clock.now_ms() + 3_599_000
    side.put("a", topic="%RETRY%g", RETRY_TOPIC="orders", REAL="x")
    side.put("p", topic="%RETRY%g", RETRY_TOPIC="payments")
    (back,) = side.lease()
    assert (back.body, back.is_retry, back.attempt) == ("a", True, 1)
    assert side.ack(back) == [DONE]
    assert side.lease() == []


async def test_a_wait_is_answered_by_an_arrival_by_what_becomes_due_and_at_its_end(side):
    side.put("a")
    first = side.wait()
    assert side.answer_to(first).read(WaitReplyHeader).ready
    (message,) = side.lease(invisible_ms=5000)
    waits = [side.wait(wait_id) for wait_id in (1, 2)]
    assert [side.answer_to(one) for one in waits] == [None, None]
    side.put("b")
    assert side.answer_to(waits[0]).read(WaitReplyHeader).ready
    assert side.answer_to(waits[1]) is None
    side.lease()
    side.pass_time(6)
    assert side.answer_to(waits[1]).read(WaitReplyHeader).ready
    assert message.attempt == 1
    side.lease()
    third = side.wait(3)
    side.wait(3, wait_ms=0)
    assert not side.answer_to(third).read(WaitReplyHeader).ready
    assert side.leasing.waits.count == 0


async def test_a_paused_group_is_refused_and_its_waits_end(side):
    side.put("a")
    messages = side.lease()
    waiting = side.wait()
    side.consuming.groups.set_consume_enable("g", False)
    assert side.answer_to(waiting) is not None
    assert side.lease_raw().code == ResponseCode.NO_PERMISSION
    assert side.ack(*messages) == [DONE]


async def test_a_receive_from_a_missing_or_internal_topic_or_group_is_refused(side):
    assert side.lease_raw(topic="nowhere").code == ResponseCode.TOPIC_NOT_EXIST
    side.consuming.groups.set_auto_create(enable=False)
    side.put("a")
    assert side.lease_raw(group="unknown").code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    side.set_group()
    side.ack(*side.lease())
    assert side.lease_raw(topic="GANTRY_SYS_ACKS").code == ResponseCode.NO_PERMISSION
    assert side.lease_raw(max_messages=-1).code == ResponseCode.INVALID_PARAMETER
    assert side.lease_raw(max_messages=257).code == ResponseCode.INVALID_PARAMETER
    assert side.lease_raw(invisible_ms=0).code == ResponseCode.INVALID_PARAMETER


async def test_a_group_that_starts_at_the_end_gets_later_messages_also_after_a_crash(side):
    side.set_group(attributes={"gantry.receive.start": "latest"})
    side.put("old")
    opaque = side.lease_raw()
    assert opaque is None, "the start must be durable first"
    side.flush()
    side.put("new")
    assert bodies(side.lease()) == ["new"]
    again = side.reopen()
    again.set_group(attributes={"gantry.receive.start": "latest"})
    assert bodies(again.lease()) == ["new"]


async def test_a_set_offset_is_where_the_group_resumes_also_after_a_crash(side):
    side.put(*"abcd")
    side.ack(*side.lease())
    assert side.committed() == 4
    answers = []
    side.consuming.keeper.commit("g", "orders", 0, 1, answers.append)
    side.flush()
    for _ in range(6000):
        if answers:
            break
        await asyncio.sleep(0.005)
    assert answers == [None]
    assert bodies(side.lease(max_messages=1)) == ["b"]
    again = side.reopen()
    assert bodies(again.lease()) == ["b", "c", "d"]


async def test_a_deleted_group_starts_again(side):
    side.put("a", "b")
    side.ack(*side.lease())
    side.consuming.groups.delete("g")
    side.consuming.offsets.remove_group("g")
    side.flush()
    assert bodies(side.lease()) == ["a", "b"]
    assert bodies(side.reopen().lease()) == ["a", "b"]


async def test_a_message_moved_while_its_group_is_deleted_is_not_given_again(side):
    """The log has the move after the deletion, so the group that begins again has it as done: here and after a restart."""
    side.put("a", "b")
    _one, two = side.lease()
    header = LeaseItemsHeader(group="g", topic="orders")
    side.ask(side.client, GantryCode.ACK, header, pack_items([item(two, ItemKind.NACK, 600_000)]))
    side.consuming.groups.delete("g")
    side.consuming.offsets.remove_group("g")
    side.flush()
    await settled(side)
    side.flush()
    assert [record.body for record in side.records(TIMER_TOPIC)] == [b"b"]
    assert bodies(side.reopen().lease()) == ["a"]
    assert bodies(side.lease()) == ["a"]


def on_slow_read(side, monkeypatch, change):
    """Let the next receive wait for the disk, and the world change meanwhile."""
    receiver, right = side.leasing.receiver, side.log.read_nowait
    monkeypatch.setattr(side.log, "read_nowait", lambda *_place: None)

    async def read(call, *arguments):
        monkeypatch.setattr(side.log, "read_nowait", right)
        change()
        side.flush()
        return call(*arguments)

    monkeypatch.setattr(receiver, "in_thread", read)


async def answered(side):
    """Wait for the answer of the last request."""
    async with asyncio.timeout(20):
        while (answer := side.answer_to(side._opaque)) is None:
            await asyncio.sleep(0.005)
    return answer


async def test_a_group_deleted_while_a_receive_reads_the_disk_gets_nothing_by_its_old_tables(
    side, monkeypatch
):
    side.set_group(retry_max_times=0)
    side.put("a")
    on_slow_read(side, monkeypatch, lambda: side.consuming.groups.delete("g"))
    assert side.lease_raw() is None
    assert given(await answered(side)) == []
    assert bodies(side.lease()) == ["a"]
    assert bodies(side.lease()) == []


async def test_a_group_paused_while_a_receive_reads_the_disk_is_refused(side, monkeypatch):
    side.put("a")
    side.set_group()
    on_slow_read(side, monkeypatch, lambda: side.consuming.groups.set_consume_enable("g", False))
    assert side.lease_raw() is None
    assert (await answered(side)).code == ResponseCode.NO_PERMISSION


async def test_a_dead_letter_of_a_topic_deleted_meanwhile_leaves_no_offset(side, monkeypatch):
    side.set_group(retry_max_times=0)
    side.put("a")
    orders = side.store.topics.find("orders")
    side.before_dead_letters_read(
        monkeypatch, lambda: side.sending.removal.remove(orders, lambda _refusal: None)
    )
    side.nack(*side.lease())
    await settled(side)
    assert side.store.queues.find("orders", 0) is None
    assert side.committed() is None


async def test_large_messages_come_in_parts(side):
    side.put(*[f"{n}" + "x" * 1_500_000 for n in range(5)])
    counts = []
    while messages := side.lease():
        counts.append(len(messages))
        assert all(one.attempt == 1 for one in messages)
    assert sum(counts) == 5
    assert max(counts) < 4


async def test_a_topic_for_priorities_gives_out_its_highest_queue_first(side):
    side.topics.put(TopicConfig(topic_name="orders", read_queue_nums=4, write_queue_nums=4))
    for queue_id in range(4):
        side.put(f"{queue_id}a", f"{queue_id}b", queue_id=queue_id)
    side.topics.put(
        TopicConfig(
            topic_name="orders",
            read_queue_nums=4,
            write_queue_nums=4,
            attributes={"message.type": "PRIORITY"},
        )
    )
    assert bodies(side.lease(max_messages=3)) == ["3a", "3b", "2a"]
    side.put("3c", queue_id=3)
    assert bodies(side.lease()) == ["3c", "2b", "1a", "1b", "0a", "0b"]
