"""Requests 303, 308 and 314: ages of a group's next messages, lowest offsets of groups, copies of a group's offsets."""

import pytest
from heartbeat_bytes import HEARTBEAT
from reading_side import ReadingSide

from broker_store.admin.progress_handler import ProgressHandlers
from broker_store.requests.deferred_replies import DeferredReplies
from gantry_wire.bodies.admin import QueryConsumeTimeSpanBody, QueryCorrectionOffsetBody
from gantry_wire.bodies.json_body import decode_body
from gantry_wire.codes import ResponseCode
from gantry_wire.limits import INT64_MAX

pytestmark = pytest.mark.anyio


@pytest.fixture
async def side(tmp_path):
    side = ReadingSide(tmp_path)
    consuming = side.consuming
    later = DeferredReplies(side.classes["adminBroker"], side.now_ms)
    handlers = ProgressHandlers(
        side.store.topics, side.store, consuming.clients, consuming.offsets, consuming.keeper,
        consuming.searching, later, side.now_ms, "broker-a",
    )  # fmt: skip
    side.commands.update(handlers.commands())
    yield side
    await later.close()
    await consuming.stop()


async def test_time_spans_hold_first_last_consumed_and_the_age_of_the_next(side):
    for time_ms in (100, 200, 300):
        side.put(b"m", store_ms=time_ms)
    side.consuming.offsets.commit("g", "orders", 0, 2)
    body = decode_body(
        (await side.ask(303, {"topic": "orders", "group": "g"})).body, QueryConsumeTimeSpanBody
    )
    first = body.consume_time_span_set[0]
    assert (first.min_time_stamp, first.max_time_stamp, first.consume_time_stamp) == (100, 300, 200)
    assert first.delay_time == side.clock_ms - 300
    assert [span.message_queue.queue_id for span in body.consume_time_span_set] == [0, 1, 2, 3]
    assert body.consume_time_span_set[1].delay_time == 0


async def test_a_group_without_lag_has_a_delay_of_zero(side):
    side.put(b"m", store_ms=100)
    side.consuming.offsets.commit("g", "orders", 0, 1)
    body = decode_body(
        (await side.ask(303, {"topic": "orders", "group": "g"})).body, QueryConsumeTimeSpanBody
    )
    assert body.consume_time_span_set[0].delay_time == 0
    reply = await side.ask(303, {"topic": "nowhere", "group": "g"})
    assert (reply.code, reply.remark) == (ResponseCode.TOPIC_NOT_EXIST, "topic[nowhere] not exist")


async def test_corrections_are_the_lowest_offsets_of_all_groups(side):
    offsets = side.consuming.offsets
    for group, queue_id, offset in (("a", 0, 5), ("b", 0, 3), ("b", 1, 9), ("left", 0, 1)):
        offsets.commit(group, "orders", queue_id, offset)
    fields = {"topic": "orders", "compareGroup": "none", "filterGroups": "left,other"}
    body = decode_body((await side.ask(308, fields)).body, QueryCorrectionOffsetBody)
    assert body.correction_offsets == {0: 3, 1: 9}
    assert offsets.find("left", "orders", 0) == 1  # left out, not forgotten


async def test_a_compared_group_that_is_further_back_hides_the_queue(side):
    offsets = side.consuming.offsets
    offsets.commit("a", "orders", 0, 5)
    offsets.commit("mine", "orders", 0, 2)
    fields = {"topic": "orders", "compareGroup": "mine", "filterGroups": "mine"}
    body = decode_body((await side.ask(308, fields)).body, QueryCorrectionOffsetBody)
    assert body.correction_offsets == {0: INT64_MAX}


async def test_a_clone_has_the_other_groups_offsets_durably(side):
    offsets = side.consuming.offsets
    offsets.commit("source", "orders", 0, 5)
    offsets.commit("source", "orders", 2, 7)
    offsets.commit("source", "gone", 0, 1)
    fields = {"srcGroup": "source", "destGroup": "target", "topic": "orders", "offline": "false"}
    assert (await side.ask(314, fields)).code == ResponseCode.SUCCESS
    assert dict(offsets.of("target", "orders")) == {0: 5, 2: 7}
    fields = {"srcGroup": "source", "destGroup": "all", "offline": "true"}
    assert (await side.ask(314, fields)).code == ResponseCode.SUCCESS
    assert offsets.topics_of("all") == ["orders"]
    assert side.committed.find("target", "orders", 2) == 7


async def test_topics_the_sources_clients_left_are_cloned_only_offline(side):
    side.store.topics.ensure("left", 1, 6)
    side.consuming.offsets.commit("readers", "left", 0, 4)
    await side.ask(34, body=HEARTBEAT)
    fields = {"srcGroup": "readers", "destGroup": "target", "topic": "left", "offline": "false"}
    await side.ask(314, fields)
    assert side.consuming.offsets.find("target", "left", 0) is None
    await side.ask(314, {**fields, "offline": "true"})
    assert side.consuming.offsets.find("target", "left", 0) == 4


async def test_no_group_of_the_systems_own_can_be_a_target(side):
    fields = {"srcGroup": "a", "destGroup": "GANTRY_SYS_X", "topic": "orders"}
    assert (await side.ask(314, fields)).code != ResponseCode.SUCCESS
