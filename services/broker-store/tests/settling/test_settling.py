"""Settle: the rules of one request, on a store over a simulated disk."""

import msgspec
import pytest
from sending_side import ScriptedPeer
from settling_side import SettlingSide, deliver

from broker_store.commit.topics import ACCESS_TOPIC, MARKS_TOPIC
from broker_store.settling.decided.mark import read_mark
from gantry_wire.bodies.cluster import TopicConfig
from gantry_wire.codes import GantryCode, ResponseCode
from gantry_wire.limits import PROPERTIES_BYTES_MAX
from gantry_wire.messages.properties import edit_properties
from gantry_wire.names import SCHEDULE_TOPIC
from gantry_wire.private_requests.settling import (
    SettleBody,
    SettleHeader,
    SettleItem,
    SettleOutput,
    SettleStatus,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def peer():
    return ScriptedPeer()


@pytest.fixture
async def side(peer):
    side = SettlingSide()
    side.topics.ensure("orders", 4)
    for number in range(4):
        side.delayed(peer, b"m%d" % number, properties={"TAGS": "a", "x": "y"})
    side.pass_time(2)
    return side


async def test_an_item_that_is_settled_lies_in_its_real_topic_with_its_own_bytes(side):
    results = side.settled([side.item(0, deliver())])
    assert [result.status for result in results] == [SettleStatus.SETTLED]
    (record,) = side.records("orders", 0)
    item = side.records(SCHEDULE_TOPIC, 0)[0]
    assert (record.body, record.born_timestamp, record.born_host) == (
        item.body,
        item.born_timestamp,
        item.born_host,
    )
    properties = record.property_map()
    assert properties.pop("__GANTRY_SETTLED") == f"{SCHEDULE_TOPIC}:0:0::1/1"
    kept = {name: value for name, value in item.property_map().items() if name not in deliver().drop}
    assert properties == kept
    place = results[0].outputs[0]
    assert (place.topic, place.queue_id, place.queue_offset, place.position) == (
        "orders",
        0,
        0,
        record.position,
    )


async def test_nothing_is_visible_or_answered_before_the_flush(side):
    answers = side.settle([side.item(0, deliver())])
    side.end_turn()
    assert side.outcomes() == []
    assert not answers
    assert not side.settling.table.is_settled((SCHEDULE_TOPIC, 0, ""), 0)
    side.flush()
    assert side.outcomes() == [(b"m0", 0)]
    assert len(answers) == 1


async def test_settling_twice_in_one_batch_and_later_makes_one_message(side):
    first = side.settle([side.item(1, deliver(), outcome="delivered"), side.item(1)])
    second = side.settle([side.item(1, outcome="cancelled")])
    side.flush()
    third = side.settled([side.item(1)])
    assert [result.status for result in first[0]] == ["settled", "already"]
    for results in (first[0][1:], second[0], third):
        assert results[0].status == "already"
        assert results[0].outcome == "delivered"
        assert results[0].outputs[0].queue_offset == 0
    assert side.outcomes() == [(b"m1", 1)]


async def test_already_is_answered_only_when_the_earlier_decision_is_durable(side):
    side.settle([side.item(1, deliver())])
    side.end_turn()
    again = side.settle([side.item(1, deliver())])
    side.end_turn()
    assert not again
    side.flush()
    assert again[0][0].status == "already"


async def test_an_item_without_outputs_leaves_a_mark(side):
    results = side.settled([side.item(2, outcome="cancelled")])
    assert results[0].status == "settled"
    (mark,) = side.records(MARKS_TOPIC, 0)
    assert mark.body == b"cancelled"
    assert read_mark(mark.properties).offset == 2
    assert side.outcomes() == []


async def test_early_items_wait_unless_forced(peer):
    side = SettlingSide()
    side.topics.ensure("orders", 4)
    side.delayed(peer)
    assert [result.status for result in side.settled([side.item(0, deliver())])] == ["early"]
    assert side.settled([side.item(0, deliver(), force=True)])[0].status == "settled"
    side.delayed(peer)
    assert side.settled([side.item(1)])[0].status == "settled"


async def test_each_item_is_judged_by_itself(side):
    side.topics.ensure("closed", 4, perm=4)
    results = side.settled(
        [
            side.item(0, deliver("nowhere")),
            side.item(1, deliver("closed")),
            SettleItem(2, 77, [deliver()]),
            SettleItem(99, 0),
            side.item(3, deliver(queue_id=3)),
        ]
    )
    assert [result.status for result in results] == [
        "unknownTopic",
        "notWritable",
        "badItem",
        "badItem",
        "settled",
    ]
    assert side.outcomes(queue_id=3) == [(b"m3", 3)]


async def test_several_outputs_lie_together_and_say_so(side):
    op = SettleOutput("RMQ_SYS_TRANS_OP_HALF_TOPIC", 0, None, b"0,", {"TAGS": "d"}, properties="none")
    results = side.settled([side.item(0, deliver(), deliver(queue_id=1), op)])
    first, second, third = results[0].outputs
    assert first.position < second.position < third.position
    records = [side.records("orders", 0)[0], side.records("orders", 1)[0], side.records(op.topic, 0)[0]]
    assert [read_mark(record.properties)[2:] for record in records] == [(1, 3), (2, 3), (3, 3)]
    assert records[2].body == b"0,"
    assert records[0].position + records[0].size == records[1].position


async def test_a_property_that_does_not_fit_is_replaced_by_a_mark_in_front(side):
    kept = len(edit_properties(side.records(SCHEDULE_TOPIC, 0)[0].properties, {"long": ""}, deliver().drop))
    long = {"long": "x" * (PROPERTIES_BYTES_MAX - kept - 10)}
    results = side.settled([side.item(0, deliver(set=long), deliver(queue_id=1))])
    assert results[0].status == "settled"
    assert len(results[0].outputs) == 2
    (mark,) = side.records(MARKS_TOPIC, 0)
    assert read_mark(mark.properties)[2:] == (1, 3)
    assert read_mark(side.records("orders", 0)[0].properties) is None
    assert read_mark(side.records("orders", 1)[0].properties)[2:] == (3, 3)
    assert mark.position + mark.size == side.records("orders", 0)[0].position


async def test_a_commit_says_so_in_its_system_flag(side):
    side.settled([side.item(0, deliver(transaction="commit", reconsume_times=3))])
    (record,) = side.records("orders", 0)
    assert record.sys_flag & 0xC == 0x8
    assert record.prepared_position == side.unit(SCHEDULE_TOPIC, 0, 0)[0]
    assert record.reconsume_times == 3


async def test_settled_items_are_known_after_a_kill(side, peer):
    side.settled([side.item(0, deliver()), side.item(2)])
    again = side.reopen()
    state = again.state(peer)
    assert (state.cursor, state.max_offset, state.settled) == (1, 4, [(2, 3)])
    again.pass_time(2)
    results = again.settled([again.item(0, deliver()), again.item(2, deliver()), again.item(1, deliver())])
    assert [result.status for result in results] == ["already", "already", "settled"]
    assert again.outcomes() == [(b"m0", 0), (b"m1", 1)]


async def test_already_waits_for_the_flush_of_a_topic_that_promises_more_than_marks_do(peer):
    side = SettlingSide(flush="async")
    side.topics.put(
        TopicConfig(
            topic_name="orders", read_queue_nums=4, write_queue_nums=4, attributes={"gantry.flush": "sync"}
        )
    )
    side.delayed(peer)
    side.pass_time(2)
    side.settle([side.item(0, deliver())])
    side.end_turn()
    again = side.settle([side.item(0, deliver())])
    side.end_turn()
    assert not again
    side.flush()
    assert again[0][0].status == "already"


async def test_a_group_whose_name_a_mark_cannot_hold_is_refused(side, peer):
    header = SettleHeader(topic=SCHEDULE_TOPIC, queue_id=0, epoch=side.claim(peer).epoch, group="a:b")
    side.ask(peer, GantryCode.SETTLE, header, msgspec.json.encode(SettleBody([side.item(0)])))
    side.flush()
    assert peer.answers[-1].code == ResponseCode.INVALID_PARAMETER
    assert side.settled([side.item(0)])[0].status == "settled"


async def test_under_async_flush_what_results_is_not_overtaken_by_sends(peer):
    side = SettlingSide(flush="async")
    side.topics.ensure("orders", 4)
    side.delayed(peer)
    side.pass_time(2)
    side.send(peer, body=b"before")
    side.settle([side.item(0, deliver())])
    side.end_turn()
    side.send(peer, body=b"behind")
    side.end_turn()
    assert [body for body, _ in side.outcomes()] == [b"before", b"later", b"behind"]


async def test_under_async_flush_what_results_overtakes_nothing_in_a_system_queue(peer):
    side = SettlingSide(flush="async")
    side.delayed(peer)
    side.settled([side.item(0, deliver(SCHEDULE_TOPIC, 0, drop=()), force=True)])
    side.send(peer, body=b"waits", properties={"DELAY": "1", "UNIQ_KEY": "W"})
    side.end_turn()
    side.settle([side.item(1, deliver(SCHEDULE_TOPIC, 0, drop=()), force=True)])
    side.end_turn()
    assert side.queues.find(SCHEDULE_TOPIC, 0).max_offset == 2
    side.flush()
    assert [record.body for record in side.records(SCHEDULE_TOPIC, 0)][2:] == [b"waits", b"later"]


async def test_properties_that_would_look_like_a_torn_write_are_refused(side, peer):
    results = side.settled([side.item(0, deliver(set={"x": "\0" * 600})), side.item(1, deliver())])
    assert [result.status for result in results] == ["badItem", "settled"]
    assert side.reopen().outcomes() == [(b"m1", 1)]


async def test_no_message_is_settled_into_the_topic_of_users(side):
    """The next start would read it as a user, or as rights."""
    side.topics.ensure(ACCESS_TOPIC, 1)
    (result,) = side.settled([side.item(0, deliver(topic=ACCESS_TOPIC))])
    assert result.status == SettleStatus.NOT_WRITABLE
    assert side.records(ACCESS_TOPIC, 0) == []
