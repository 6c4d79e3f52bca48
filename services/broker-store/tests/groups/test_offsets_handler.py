"""Requests 14, 15 and 43: RocketMQ 5.3.3's start positions, checks and answers."""

import pytest
from reading_side import ReadingSide

from gantry_wire.bodies import fastjson
from gantry_wire.codes import ResponseCode
from gantry_wire.headers.messages import OffsetReplyHeader

pytestmark = pytest.mark.anyio


@pytest.fixture
async def side(tmp_path):
    side = ReadingSide(tmp_path)
    yield side
    await side.consuming.stop()


def fields(offset=None, **changes):
    named = {"consumerGroup": "g", "topic": "orders", "queueId": "0", **changes}
    return named if offset is None else {**named, "commitOffset": str(offset)}


async def test_a_known_offset_is_answered(side):
    side.consuming.offsets.commit("g", "orders", 0, 42)
    assert (await side.ask(14, fields())).read(OffsetReplyHeader).offset == 42


async def test_a_new_group_on_a_queue_whose_first_message_is_in_memory_starts_at_zero(side):
    side.put(b"m")
    assert (await side.ask(14, fields())).read(OffsetReplyHeader).offset == 0
    assert side.consuming.offsets.find("g", "orders", 0) is None  # the answer is not stored


async def test_a_new_group_that_refuses_to_start_at_zero_gets_an_error(side):
    side.put(b"m")
    reply = await side.ask(14, fields(setZeroIfNotFound="false"))
    assert reply.code == ResponseCode.QUERY_NOT_FOUND
    assert reply.remark == "Not found, do not set to zero, maybe this group boot first"


@pytest.mark.parametrize("queue_id", [0, 1])
async def test_a_new_group_on_a_queue_that_never_held_a_message_starts_at_zero(side, queue_id):
    reply = await side.ask(14, fields(queueId=str(queue_id)))
    assert reply.read(OffsetReplyHeader).offset == 0, "else it misses what lands before it asks for the end"


async def test_a_missing_topic_has_no_start(side):
    assert (await side.ask(14, fields(topic="nowhere"))).code == ResponseCode.QUERY_NOT_FOUND


@pytest.mark.parametrize("case", ["cold", "old"])
async def test_otherwise_a_new_group_follows_its_own_rule(side, case):
    side.put(b"m")
    side.store.log.cold = case == "cold"
    if case == "old":
        side.put(b"n")
        side.store.find("orders", 0).min_offset = 1
    reply = await side.ask(14, fields())
    assert reply.code == ResponseCode.QUERY_NOT_FOUND
    assert reply.remark == "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"consumerGroup": "unknown"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ({"topic": "unknown"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"queueId": "-2"}, ResponseCode.INVALID_PARAMETER),
        ({"commitOffset": "-1"}, ResponseCode.INVALID_PARAMETER),
    ],
)
async def test_a_commit_for_what_does_not_exist_is_refused(side, changes, code):
    side.consuming.groups.find_or_create("g")
    assert (await side.ask(15, {**fields(3), **changes})).code == code


async def test_a_commit_without_an_offset_is_refused_by_name(side):
    side.consuming.groups.find_or_create("g")
    assert "commitOffset" in ((await side.ask(15, fields())).remark or "")


async def test_an_answered_commit_is_durable(side, tmp_path):
    side.consuming.groups.find_or_create("g")
    assert (await side.ask(15, fields(9))).code == ResponseCode.SUCCESS
    other = ReadingSide(tmp_path, after=side)  # the process ended without a stop
    assert other.consuming.offsets.find("g", "orders", 0) == 9
    await other.consuming.stop()


async def test_a_oneway_commit_is_taken_and_not_answered(side):
    side.consuming.groups.find_or_create("g")
    side.send(15, fields(9), oneway=True)
    assert side.consuming.offsets.find("g", "orders", 0) == 9
    assert side.peer.answers() == []


async def test_all_offsets_are_returned_in_the_files_format(side):
    side.consuming.offsets.commit("g", "orders", 3, 8)
    body = (await side.ask(43)).body
    assert b'{"orders@g":{3:8}}' in body
    assert fastjson.loads(body)["offsetTable"] == {"orders@g": {"3": 8}}
