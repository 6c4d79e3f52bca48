"""Requests 202, 208, 317, 300, 343, 345, 203, 204 and 328: queries of tools about topics, groups and clients."""

import pytest
from heartbeat_bytes import HEARTBEAT
from memory_store import MemoryPeer
from reading_side import ReadingSide, pull_fields

from gantry_wire.bodies.admin import (
    ConsumerConnection,
    ConsumeStats,
    ConsumeStatsList,
    ProducerConnection,
    ProducerTableInfo,
    QuerySubscriptionResponseBody,
    TopicStatsTable,
)
from gantry_wire.bodies.cluster import GroupList, MessageQueue, TopicList
from gantry_wire.bodies.json_body import decode_body
from gantry_wire.codes import ResponseCode

pytestmark = pytest.mark.anyio


@pytest.fixture
async def side(tmp_path):
    side = ReadingSide(tmp_path)
    yield side
    await side.consuming.stop()


def queue(queue_id):
    return MessageQueue(broker_name="broker-a", queue_id=queue_id, topic="orders")


async def test_topic_stats_have_an_entry_for_every_queue(side):
    side.put(b"m", store_ms=100)
    side.put(b"m", store_ms=300)
    side.store.topics.find("orders").write_queue_nums = 6
    table = decode_body((await side.ask(202, {"topic": "orders"})).body, TopicStatsTable).offset_table
    assert len(table) == 6
    first = table[queue(0)]
    assert (first.min_offset, first.max_offset, first.last_update_timestamp) == (0, 2, 300)
    assert (table[queue(5)].max_offset, table[queue(5)].last_update_timestamp) == (0, 0)
    assert (await side.ask(202, {"topic": "nowhere"})).code == ResponseCode.TOPIC_NOT_EXIST


async def test_consume_stats_hold_broker_commit_and_pull_offsets(side):
    for time_ms in (100, 200, 300):
        side.put(b"m", store_ms=time_ms)
    await side.ask(11, pull_fields(2))
    side.consuming.offsets.commit("readers", "orders", 0, 2)
    stats = decode_body((await side.ask(208, {"consumerGroup": "readers"})).body, ConsumeStats)
    entry = stats.offset_table[queue(0)]
    assert (entry.broker_offset, entry.consumer_offset, entry.pull_offset, entry.last_timestamp) == (
        3,
        2,
        2,
        200,
    )
    assert len(stats.offset_table) == 4


async def test_consume_stats_of_one_topic_need_no_commit(side):
    body = (await side.ask(208, {"consumerGroup": "new", "topic": "orders"})).body
    assert len(decode_body(body, ConsumeStats).offset_table) == 4
    body = (await side.ask(208, {"consumerGroup": "new", "topic": "nowhere"})).body
    assert decode_body(body, ConsumeStats).offset_table == {}


async def test_topics_a_connected_group_left_are_not_listed(side):
    side.store.topics.ensure("left", 1, 6)
    side.consuming.offsets.commit("readers", "left", 0, 1)
    await side.ask(34, body=HEARTBEAT)
    stats = decode_body((await side.ask(208, {"consumerGroup": "readers"})).body, ConsumeStats)
    assert stats.offset_table == {}
    listed = {"consumerGroup": "readers", "topicList": "left;orders"}
    stats = decode_body((await side.ask(208, listed)).body, ConsumeStats)
    assert {queue.topic for queue in stats.offset_table} == {"left", "orders"}


async def test_progress_of_every_group_at_once(side):
    side.put(b"m")
    side.consuming.groups.find_or_create("g")
    side.consuming.offsets.commit("g", "orders", 0, 0)
    body = decode_body((await side.ask(317, {"isOrder": "false"})).body, ConsumeStatsList)
    assert [list(each) for each in body.consume_stats_list] == [["g"]]
    assert (body.total_diff, body.total_inflight_diff) == (1, 0)
    body = decode_body((await side.ask(317, {"isOrder": "true"})).body, ConsumeStatsList)
    assert body.consume_stats_list == []
    side.store.topics.find("orders").order = True
    body = decode_body((await side.ask(317, {"isOrder": "true"})).body, ConsumeStatsList)
    assert [list(each) for each in body.consume_stats_list] == [["g"]]


async def test_clients_of_groups_are_listed_with_their_subscriptions(side):
    await side.ask(34, body=HEARTBEAT, peer=MemoryPeer(port=4321))
    body = decode_body((await side.ask(203, {"consumerGroup": "readers"})).body, ConsumerConnection)
    assert [(each.client_id, each.client_addr, each.version) for each in body.connection_set] == [
        ("c1", "127.0.0.1:4321", 479)
    ]
    assert body.consume_from_where == "CONSUME_FROM_FIRST_OFFSET"
    assert body.subscription_table["orders"].tags_set == ["a"]
    producers = decode_body((await side.ask(204, {"producerGroup": "p"})).body, ProducerConnection)
    assert producers.connection_set[0].client_id == "c1"
    everybody = decode_body((await side.ask(328)).body, ProducerTableInfo)
    assert everybody.data["p"][0].remote_ip == "/127.0.0.1:4321"


async def test_an_unknown_language_is_reported_as_other(side):
    await side.ask(34, body=HEARTBEAT)
    side.consuming.clients.consumers["readers"].clients[side.peer.id].language = "KLINGON"
    body = decode_body((await side.ask(203, {"consumerGroup": "readers"})).body, ConsumerConnection)
    assert body.connection_set[0].language == "OTHER"


async def test_an_absent_client_is_reported(side):
    reply = await side.ask(203, {"consumerGroup": "g"})
    assert (reply.code, reply.remark) == (206, "the consumer group[g] not online")
    reply = await side.ask(204, {"producerGroup": "p"})
    assert (reply.code, reply.remark) == (1, "the producer group[p] not exist")


async def test_groups_of_a_topic_are_those_that_subscribe_and_those_that_committed(side):
    side.consuming.offsets.commit("old", "orders", 0, 1)
    await side.ask(34, body=HEARTBEAT)
    assert decode_body((await side.ask(300, {"topic": "orders"})).body, GroupList).group_list == [
        "readers",
        "old",
    ]
    assert decode_body((await side.ask(343, {"group": "old"})).body, TopicList).topic_list == ["orders"]
    fields = {"group": "readers", "topic": "orders"}
    body = decode_body((await side.ask(345, fields)).body, QuerySubscriptionResponseBody)
    assert body.subscription_data.sub_string == "a"
    body = decode_body(
        (await side.ask(345, {"group": "old", "topic": "orders"})).body, QuerySubscriptionResponseBody
    )
    assert body.subscription_data is None
