"""Pops over leases: what clients get, acknowledge and get again, in one group with receives."""

import asyncio
import base64
import json

import pytest
from leasing_side import bodies
from pop_side import PopSide, ack_fields, popped

from broker_store.groups import first_offset
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.headers.pop import (
    ChangedInvisibleHeader,
    NotificationHeader,
    NotificationReplyHeader,
    PopHeader,
)

pytestmark = pytest.mark.anyio
NO_MESSAGE = ResponseCode.NO_MESSAGE


@pytest.fixture
async def side(anyio_backend):
    side = PopSide()
    side.store.topics.ensure("orders", 4, 6)
    return side


async def test_popped_messages_are_acknowledged_and_move_the_offset(side):
    side.put("a", "b")
    side.put("c", queue_id=1)
    messages = side.pop()
    assert sorted(bodies(messages)) == ["a", "b", "c"]
    assert side.pop() == []
    assert [side.ack_of(one).code for one in messages] == [0, 0, 0]
    assert (side.committed(0), side.committed(1)) == (2, 1)
    assert side.reopen().committed(0) in {None, 2}


async def test_a_message_that_is_not_acknowledged_comes_again_with_its_count(side):
    side.put("a")
    (first,) = side.pop(invisible_time=5000)
    side.pass_time(5.1)
    (again,) = side.pop()
    assert (first.record.reconsume_times, again.record.reconsume_times) == (0, 1)
    assert side.ack_of(first).code == NO_MESSAGE, "its lease is over"
    assert side.ack_of(again).code == 0


async def test_a_changed_invisible_time_keeps_the_message_and_its_new_extra_info_names_the_lease(side):
    side.put("a")
    (message,) = side.pop(invisible_time=5000)
    fields = ack_fields(message, invisibleTime="60000")
    answer = side.call(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, fields)
    changed = answer.read(ChangedInvisibleHeader)
    side.pass_time(20)
    assert side.pop() == []
    parts = message.extra_info.split(" ")
    parts[1:4] = map(str, (changed.pop_time, changed.invisible_time, changed.revive_qid))
    assert side.ack_of(message._replace(extra_info=" ".join(parts))).code == 0
    assert side.committed() == 1


async def test_a_group_pops_and_receives_at_once_and_each_message_reaches_one_of_both(side):
    side.put(*"abcdef")
    popped_ones, received = side.pop(max_msg_nums=3), side.lease(max_messages=10)
    assert bodies(popped_ones) + bodies(received) == list("abcdef")
    assert side.ack(*received) == [1, 1, 1]
    assert side.committed() == 0
    for one in popped_ones:
        side.ack_of(one)
    assert side.committed() == 6


async def test_an_extra_info_from_before_a_restart_acknowledges(anyio_backend):
    side = PopSide()
    side.put("a", "b")
    one, _two = side.pop()
    again = reopened(side)
    assert again.ack_of(one).code == 0
    assert bodies(again.pop()) == ["b"]


def reopened(side):
    again = side.reopen()
    assert isinstance(again, PopSide)
    return again


async def test_a_batch_acknowledges_and_skips_what_is_over(side):
    side.put(*"abcdefghij")
    messages = side.pop()
    start, time, invisible, revive, *_ = messages[0].extra_info.split(" ")
    bits = bytes([0b10000011, 0b00000010])  # 0, 1, 7, 9
    entry = {"c": "g", "t": "orders", "r": "0", "so": int(start), "q": 0, "rq": int(revive), "pt": int(time), "it": int(invisible), "b": base64.b64encode(bits).decode()}  # fmt: skip
    body = json.dumps({"brokerName": "broker-a", "acks": [entry, {**entry, "q": 9}]}).encode()
    opaque = side.ask(side.client, RequestCode.BATCH_ACK_MESSAGE, {}, body)
    async with asyncio.timeout(30):
        while side.answer_to(opaque) is None:
            await asyncio.sleep(0)
            side.flush()
    assert side.answer_to(opaque).code == 0
    assert side.committed() == 2
    side.pass_time(31)
    assert bodies(side.pop()) == ["c", "d", "e", "f", "g", "i"]
    assert side.call(RequestCode.BATCH_ACK_MESSAGE, {}).code == NO_MESSAGE


async def test_a_message_back_from_the_delays_has_its_topic_and_names_the_retry_queue(side):
    side.put("late", topic="%RETRY%g", RETRY_TOPIC="orders")
    (message,) = side.pop()
    assert message.record.topic == b"orders"
    assert message.extra_info.split(" ")[4:] == ["1", "broker-a", "0", "0"]
    assert side.ack_of(message).code == 0
    assert side.committed(topic="%RETRY%g") == 1


async def test_a_held_pop_is_answered_by_the_next_message(side):
    assert side.pop_raw(poll_time=10_000) is None
    opaque = side._opaque
    side.flush()
    side.put("a")
    for _ in range(3):
        await asyncio.sleep(0)
    side.flush()
    assert bodies(popped(side.answer_to(opaque))) == ["a"]


async def test_a_held_pop_of_one_queue_leaves_other_queues_alone(side):
    side.put("x")
    side.ack_of(*side.pop())
    assert side.pop_raw(queue_id=0, poll_time=10_000) is None
    opaque = side._opaque
    side.put("other", queue_id=1)
    await asyncio.sleep(0)
    assert side.answer_to(opaque) is None
    side.put("own")
    await asyncio.sleep(0)
    assert bodies(popped(side.answer_to(opaque))) == ["own"]


async def test_an_empty_pop_ends_with_polling_timeout_and_too_many_with_polling_full(side, monkeypatch):
    monkeypatch.setattr("broker_store.pop.pop_handler.HELD_MAX", 1)
    assert side.pop_raw().code == ResponseCode.POLLING_TIMEOUT
    assert side.pop_raw().fields["popTime"] == "0", "the Java client needs the numbers"
    assert side.pop_raw(poll_time=10_000) is None
    assert side.pop_raw(poll_time=10_000).code == ResponseCode.POLLING_FULL
    info = side.call(RequestCode.POLLING_INFO, {"consumerGroup": "g", "topic": "orders", "queueId": "-1"})
    assert info.fields["pollingNum"] == "1"


async def test_a_notification_says_whether_there_is_a_message_and_leases_none(side):
    header = NotificationHeader(consumer_group="g", topic="orders", poll_time=10_000)
    assert side.asked(RequestCode.NOTIFICATION, header) is None
    opaque = side._opaque
    side.put("a")
    reply = side.answer_to(opaque).read(NotificationReplyHeader)
    assert (reply.has_msg, reply.polling_full) == (True, False)
    assert bodies(side.pop()) == ["a"]


async def test_a_peek_shows_messages_and_leases_none(side):
    side.put("a")
    fields = PopHeader(consumer_group="g", topic="orders", queue_id=-1, max_msg_nums=32)
    for _ in range(2):
        assert bodies(popped(side.call(RequestCode.PEEK_MESSAGE, fields))) == ["a"]
    (message,) = side.pop()
    assert message.record.reconsume_times == 0


async def test_a_new_group_begins_at_the_newest_message_if_it_asks_for_it(side, monkeypatch):
    monkeypatch.setattr(first_offset, "is_whole_in_memory", lambda *_: False)
    side.put("old", "last")
    assert bodies(side.pop(init_mode=1)) == ["last"]


async def test_a_filter_chooses_the_messages(side):
    side.put("a", TAGS="red")
    side.put("b", TAGS="blue", size="5")
    assert bodies(side.pop(exp_type="TAG", exp="red")) == ["a"]
    assert bodies(side.pop(consumer_group="h", exp_type="SQL92", exp="size > 3")) == ["b"]
    assert side.pop_raw(exp_type="SQL92", exp="size >").code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


async def test_an_ordered_pop_gives_one_message_of_a_key_at_a_time(side):
    side.put("a1", "a2", __SHARDINGKEY="a")
    side.put("b1", __SHARDINGKEY="b")
    first = side.pop(order=True)
    assert bodies(first) == ["a1", "b1"]
    assert side.pop(order=True) == []
    assert side.lease() == [], "the order is the group's"
    side.ack_of(first[0])
    assert bodies(side.pop(order=True)) == ["a2"]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"max_msg_nums": 33}, ResponseCode.INVALID_PARAMETER),
        ({"queue_id": 99}, ResponseCode.INVALID_PARAMETER),
        ({"topic": "nowhere"}, ResponseCode.TOPIC_NOT_EXIST),
    ],
)
async def test_a_pop_that_rocketmq_refuses_is_refused(side, fields, code):
    side.put("a")
    assert side.pop_raw(**fields).code == code


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"topic": "nowhere"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"queueId": "99"}, ResponseCode.MESSAGE_ILLEGAL),
        ({"offset": "7"}, NO_MESSAGE),
        ({"extraInfo": "1 2"}, ResponseCode.MESSAGE_ILLEGAL),
    ],
)
async def test_an_acknowledgement_of_no_popped_message_is_refused(side, fields, code):
    side.put("a")
    (message,) = side.pop()
    assert side.ack_of(message, **fields).code == code
