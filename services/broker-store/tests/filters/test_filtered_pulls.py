"""Pulls with an SQL92 filter from request to reply: found, skipped, held, refused and damaged messages."""

import asyncio

import pytest
from memory_store import MemoryPeer, bodies_of
from reading_side import SUSPEND, WITH_SUBSCRIPTION, ReadingSide, pull_fields

from broker_store.reading.filtered.filtered_scan import SCAN_UNITS_MAX
from gantry_wire.bodies.clients import ConsumerData, HeartbeatData, SubscriptionData
from gantry_wire.bodies.json_body import encode_body
from gantry_wire.codes import ResponseCode
from gantry_wire.headers.messages import PullReplyHeader

pytestmark = pytest.mark.anyio
GENEROUS_SECONDS = 60


@pytest.fixture
async def side(tmp_path):
    side = ReadingSide(tmp_path)
    yield side
    await side.consuming.stop()


def sql(offset=0, expression="n > 5", **changes):
    return pull_fields(offset, subscription=expression, expressionType="SQL92", **changes)


def put(side, *numbers, **kwargs):
    for n in numbers:
        side.put(b"%d" % n, properties={"n": str(n)}, **kwargs)


async def until(condition):
    async with asyncio.timeout(GENEROUS_SECONDS):
        while not condition():
            await asyncio.sleep(0.002)


async def answer(peer):
    found = []
    await until(lambda: found.extend(peer.answers()) or found)
    (only,) = found
    return only


def heartbeat(expression, version=1, kind="SQL92", *, class_filter=False):
    subscription = SubscriptionData(
        topic="orders",
        sub_string=expression,
        sub_version=version,
        expression_type=kind,
        class_filter_mode=class_filter,
    )
    consumer = ConsumerData(group_name="readers", subscription_data_set=[subscription])
    return encode_body(HeartbeatData(client_id="c1", consumer_data_set=[consumer]))


async def test_only_what_matches_is_sent_and_the_offset_passes_over_the_rest(side):
    put(side, *range(10))
    reply = await side.ask(11, sql())
    assert reply.code == ResponseCode.SUCCESS
    assert bodies_of(reply.body) == [b"6", b"7", b"8", b"9"]
    assert reply.read(PullReplyHeader).next_begin_offset == 10


async def test_a_full_reply_ends_before_the_next_match(side):
    put(side, *range(10))
    reply = await side.ask(361, sql(maxMsgNums=2))
    assert bodies_of(reply.body) == [b"6", b"7"]
    assert reply.read(PullReplyHeader).next_begin_offset == 8


async def test_messages_without_the_property_do_not_match(side):
    side.put(b"plain")
    put(side, 9)
    assert bodies_of((await side.ask(11, sql())).body) == [b"9"]
    assert bodies_of((await side.ask(11, sql(expression="n IS NULL"))).body) == [b"plain"]


async def test_a_pull_that_finds_nothing_moves_the_group_on(side):
    put(side, *range(5))
    reply = await side.ask(11, sql())
    assert reply.code == ResponseCode.PULL_RETRY_IMMEDIATELY
    assert reply.read(PullReplyHeader).next_begin_offset == 5


async def test_a_long_queue_is_searched_in_slices_and_up_to_a_bound(side):
    for n in range(SCAN_UNITS_MAX + 10):
        side.store.put(properties={"n": str(n % 6)})
    peer = MemoryPeer()
    side.send(11, sql(), peer=peer)
    assert peer.answers() == []
    reply = await answer(peer)
    assert reply.code == ResponseCode.PULL_RETRY_IMMEDIATELY
    assert reply.read(PullReplyHeader).next_begin_offset == SCAN_UNITS_MAX


async def test_other_requests_run_while_a_long_queue_is_searched(side):
    for n in range(5000):
        side.store.put(properties={"n": str(n % 6)})
    slow, quick = MemoryPeer(), MemoryPeer()
    side.send(11, sql(), peer=slow)
    await asyncio.sleep(0)
    side.send(11, pull_fields(), peer=quick)
    assert quick.answer().code == ResponseCode.SUCCESS
    assert slow.answers() == []
    assert (await answer(slow)).code == ResponseCode.PULL_RETRY_IMMEDIATELY


async def test_a_held_pull_stays_held_over_what_it_does_not_want(side):
    put(side, 1)
    flags = SUSPEND | WITH_SUBSCRIPTION
    side.send(11, sql(1, sysFlag=flags, suspendTimeoutMillis=60_000))
    put(side, 1, 2, 3)
    assert side.peer.answers() == []
    assert side.consuming.pulls.held_count == 1
    put(side, 9)
    reply = side.peer.answer()
    assert bodies_of(reply.body) == [b"9"]
    assert reply.read(PullReplyHeader).next_begin_offset == 5
    assert side.consuming.pulls.held_count == 0


async def test_a_held_pull_keeps_its_first_deadline_and_gets_the_offset_it_reached(side):
    flags = SUSPEND | WITH_SUBSCRIPTION
    put(side, 0)
    side.send(11, sql(1, sysFlag=flags, suspendTimeoutMillis=300))
    held = side.consuming.pulls._held_pulls
    first = held.next_expiry_ms()
    for _ in range(3):
        put(side, 1)
        assert held.next_expiry_ms() == first
    reply = await answer(side.peer)
    assert reply.code == ResponseCode.PULL_RETRY_IMMEDIATELY
    assert reply.read(PullReplyHeader).next_begin_offset == 4


async def test_cold_stretches_are_read_in_a_thread(side):
    put(side, *range(10))
    side.store.log.cold = True
    assert bodies_of((await side.ask(11, sql())).body) == [b"6", b"7", b"8", b"9"]


async def test_damaged_records_are_left_out_and_counted(side):
    for n in range(6, 12):
        put(side, n)
    queue = side.store.find("orders", 0)
    side.store.log.damaged.add(int.from_bytes(queue.read(2, 1)[:8], "big"))
    reply = await side.ask(11, sql())
    assert bodies_of(reply.body) == [b"6", b"7", b"9", b"10", b"11"]
    assert reply.read(PullReplyHeader).next_begin_offset == 6
    assert side.consuming.metrics.damaged_records == 1


async def test_holes_and_removed_records_are_passed_over(side):
    put(side, 6, 7)
    side.store.find("orders", 0).put_hole()
    put(side, 8)
    side.store.log.min_position = int.from_bytes(side.store.find("orders", 0).read(1, 1)[:8], "big")
    assert bodies_of((await side.ask(11, sql())).body) == [b"7", b"8"]


async def test_records_of_other_queues_between_do_not_matter(side):
    for n in range(50):
        put(side, n)
        side.put(b"x" * 5000, queue_id=1)
    reply = await side.ask(11, sql(expression="n >= 40"))
    assert bodies_of(reply.body) == [b"%d" % n for n in range(40, 50)]


async def test_a_closed_client_ends_its_scan(side):
    for _ in range(3000):
        side.store.put(properties={"n": "1"})
    peer = MemoryPeer()
    side.send(11, sql(), peer=peer)
    peer.is_closing = True
    await side.consuming.pulls.close()
    assert peer.answers() == []
    assert side.classes["pull"].in_flight == 0


async def test_a_pull_without_a_subscription_uses_that_of_the_heartbeats(side):
    put(side, *range(10))
    assert (await side.ask(34, body=heartbeat("n = 3"))).code == ResponseCode.SUCCESS
    reply = await side.ask(11, pull_fields(sysFlag=0, subVersion=1))
    assert bodies_of(reply.body) == [b"3"]


@pytest.mark.parametrize(
    ("expression", "fields", "code"),
    [
        ("n = 3", {"subVersion": 2}, ResponseCode.SUBSCRIPTION_NOT_LATEST),
        ("n =", {"subVersion": 1}, ResponseCode.FILTER_DATA_NOT_EXIST),
    ],
)
async def test_versions_and_missing_filters_have_different_errors(side, expression, fields, code):
    await side.ask(34, body=heartbeat(expression))
    assert (await side.ask(11, pull_fields(sysFlag=0, **fields))).code == code


async def test_a_filter_older_than_the_subscription_is_refused(side):
    await side.ask(34, body=heartbeat("n = 3"))
    side.consuming.clients.consumers["readers"].subscriptions["orders"].sub_version = 5
    reply = await side.ask(11, pull_fields(sysFlag=0, subVersion=5))
    assert reply.code == ResponseCode.FILTER_DATA_NOT_LATEST


async def test_a_group_may_change_from_tags_to_sql_and_back(side):
    put(side, 1, 9)
    for kind, expression, expected in (("TAG", "*", 2), ("SQL92", "n > 5", 1), ("TAG", "*", 2)):
        side.clock_ms += 1
        await side.ask(34, body=heartbeat(expression, side.clock_ms, kind))
        reply = await side.ask(11, pull_fields(sysFlag=0, subVersion=side.clock_ms))
        assert len(bodies_of(reply.body)) == expected


async def test_a_group_that_left_is_dead_in_the_table(side):
    peer = MemoryPeer()
    await side.ask(34, body=heartbeat("n = 3"), peer=peer)
    side.consuming.closed(peer)
    await until(lambda: side.consuming.filters.table.find("orders", "readers").is_dead)


async def test_the_table_is_saved_and_read_at_the_next_start(side, tmp_path):
    await side.ask(34, body=heartbeat("n = 3"))
    await side.consuming.filters.save()
    again = ReadingSide(tmp_path)
    assert again.consuming.filters.table.find("orders", "readers").expression == "n = 3"
    await again.consuming.stop()


async def test_a_filter_can_be_switched_off(side):
    side.settings.property_filter_enable = False
    remark = "The broker does not support consumer to filter message by SQL92"
    for code, fields, body in ((11, sql(), b""), (46, None, check("n > 5"))):
        reply = await side.ask(code, fields, body)
        assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, remark)


def check(expression, kind="SQL92", *, class_filter="false"):
    return (
        '{"clientId":"c","group":"g","subscriptionData":'
        f'{{"topic":"t","subString":"{expression}","expressionType":"{kind}","classFilterMode":{class_filter}}}}}'
    ).encode()


@pytest.mark.parametrize(
    ("body", "code", "remark"),
    [
        (check("a || b", "TAG"), 0, ""),
        (check("a > 1"), 0, ""),
        (check("a > "), 23, "column 5: expected a property, a literal or '('"),
        (check("x", "XPATH"), 23, "use TAG or SQL92"),
        (check("*", "TAG", class_filter="true"), 23, "filtering by class is not supported"),
    ],
)
async def test_a_client_may_ask_first_whether_its_subscription_is_served(side, body, code, remark):
    reply = await side.ask(46, body=body)
    assert reply.code == code
    assert remark in (reply.remark or "")


async def test_wide_pulls_filter_with_their_own_limits(side):
    put(side, *range(200))
    reply = await side.ask(11, sql(gantryWide="true", maxMsgNums=150))
    assert len(bodies_of(reply.body)) == 150


async def test_a_disk_that_cannot_be_read_keeps_no_place_of_its_class(side):
    put(side, 6)
    queue = side.store.find("orders", 0)
    read, fails = queue.read, []

    def read_or_fail(offset, count):
        if fails:
            raise OSError(24, "too many open files")
        fails.append(offset)
        return read(offset, count)

    queue.read = read_or_fail
    with pytest.raises(OSError, match="too many"):
        side.send(11, sql())
    assert side.classes["pull"].in_flight == 0
