"""Request 321: units of a queue for tools."""

import pytest
from heartbeat_bytes import HEARTBEAT
from reading_side import ReadingSide

from broker_store.reading.queries.units_handler import UNITS_MAX, UnitHandlers
from gantry_wire.bodies.admin import QueryConsumeQueueResponseBody
from gantry_wire.bodies.json_body import decode_body
from gantry_wire.codes import ResponseCode
from gantry_wire.messages.properties import tags_code

pytestmark = pytest.mark.anyio


@pytest.fixture
async def side(tmp_path):
    side = ReadingSide(tmp_path)
    consuming = side.consuming
    handlers = UnitHandlers(side.store.topics, side.store, consuming.clients, consuming.filters.table)
    side.commands.update(handlers.commands())
    yield side
    await consuming.stop()


def fields(index=0, count=10, **changes):
    asked = {"topic": "orders", "queueId": "0", "index": str(index), "count": str(count)}
    return {**asked, **changes}


async def ask(side, asked):
    reply = await side.ask(321, asked)
    return reply, decode_body(reply.body, QueryConsumeQueueResponseBody)


async def test_units_are_shown_as_stored(side):
    for tag in ("a", "b", "a"):
        side.put(b"m", tags=tag)
    reply, body = await ask(side, fields(index=1, count=5))
    assert (reply.code, reply.remark) == (ResponseCode.SUCCESS, None)
    assert (body.min_queue_index, body.max_queue_index) == (0, 3)
    assert [unit.tags_code for unit in body.queue_data] == [tags_code("b"), tags_code("a")]
    assert body.queue_data[0].physic_offset == body.queue_data[0].physic_size > 91
    assert (body.filter_data, body.queue_data[0].eval) == (None, False)


async def test_a_groups_subscription_decides_what_passes(side):
    await side.ask(34, body=HEARTBEAT)
    for tag in ("a", "b"):
        side.put(b"m", tags=tag)
    _, body = await ask(side, fields(consumerGroup="readers"))
    assert [unit.eval for unit in body.queue_data] == [True, False]
    assert body.subscription_data.sub_string == "a"
    assert body.filter_data == "null"
    _, body = await ask(side, fields(consumerGroup="away"))
    assert (body.subscription_data, body.filter_data) == (None, "away@orders is not online!")


async def test_missing_units_are_reported(side):
    side.put(b"m")
    reply, body = await ask(side, fields(index=1))
    assert (reply.code, reply.remark) == (ResponseCode.SUCCESS, "Index 1 of 0@orders is not exist!")
    assert (body.queue_data, body.max_queue_index) == ([], 1)
    reply, body = await ask(side, fields(queueId="3"))
    assert (reply.code, body.max_queue_index) == (ResponseCode.SUCCESS, 0)
    for asked in (fields(queueId="9"), fields(topic="nowhere"), fields(queueId="-1")):
        reply = await side.ask(321, asked)
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert reply.remark == f"{asked['queueId']}@{asked['topic']} is not exist!"


async def test_an_answer_is_bounded(side):
    side.put(b"m")
    side.store.queues[("orders", 0)].units *= UNITS_MAX + 5
    _, body = await ask(side, fields(count=10**6))
    assert len(body.queue_data) == UNITS_MAX
