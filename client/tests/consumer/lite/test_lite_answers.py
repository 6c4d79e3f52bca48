"""Answers of a LitePullConsumer to brokers: its offsets, its state, and that it follows a reset."""

import pytest
from scripted_cluster import cluster, eventually
from scripted_group import FIRST, MESSAGES, GroupBroker

from gantry_wire.bodies import cluster as cluster_bodies
from gantry_wire.bodies.clients import GetConsumerStatusBody, ResetOffsetBody
from gantry_wire.bodies.consumers import ConsumerRunningInfo
from gantry_wire.bodies.json_body import decode_body, encode_body
from gantry_wire.frames.command import Command
from gantrymq import LitePullConsumer, MessageQueue

pytestmark = pytest.mark.anyio
QUEUE = cluster_bodies.MessageQueue(topic="T", broker_name="broker-a", queue_id=0)


async def poll_all(consumer: LitePullConsumer, count: int) -> list[tuple[int, int]]:
    seen: list[tuple[int, int]] = []
    while len(seen) < count:
        seen += [(each.queue_id, each.queue_offset) for each in await consumer.poll(30)]
    return sorted(seen)


def asked(code: int, fields: dict[str, str], body: bytes = b"") -> Command:
    return Command(code=code, opaque=7, fields=fields, body=body)


async def test_a_lite_consumer_reports_its_offsets_and_state() -> None:
    async with cluster(GroupBroker()) as (_, address):
        consumer = LitePullConsumer("g", nameservers=address, start=FIRST)
        consumer.subscribe("T")
        async with consumer:
            await poll_all(consumer, 2 * MESSAGES)
            await consumer.commit()
            said = consumer.handle_push(asked(221, {"topic": "T", "group": "g"}), address)
            where = decode_body(said.body, GetConsumerStatusBody).message_queue_table
            fields = {"consumerGroup": "g", "clientId": "c", "jstackEnable": "true"}
            said = consumer.handle_push(asked(307, fields), address)
            info = decode_body(said.body, ConsumerRunningInfo)
            direct = consumer.handle_push(asked(309, {"consumerGroup": "g"}), address)
    assert {queue.queue_id: offset for queue, offset in where.items()} == {0: MESSAGES, 1: MESSAGES}
    assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_ACTIVELY"
    assert [each.topic for each in info.subscription_set] == ["T"]
    assert info.mq_table[QUEUE].commit_offset == MESSAGES
    assert info.status_table["T"].pull_tps > 0
    assert info.status_table["T"].consume_ok_tps > 0
    assert "gantry" in info.jstack
    assert (direct.code, direct.remark) == (1, "The Consumer Group <g> not exist in this consumer")


async def test_a_reset_moves_a_lite_consumer_permanently() -> None:
    broker = GroupBroker()
    async with cluster(broker) as (_, address):
        consumer = LitePullConsumer("g", nameservers=address, start=FIRST)
        consumer.subscribe("T")
        async with consumer:
            await poll_all(consumer, 2 * MESSAGES)
            fields = {"topic": "T", "group": "g", "timestamp": "0", "isForce": "true"}
            body = encode_body(ResetOffsetBody(offset_table={QUEUE: 2}))
            await consumer.handle_push(asked(220, fields, body), address)
            assert broker.offsets["T", 0] == 2
            again = await poll_all(consumer, MESSAGES - 2)
            assert consumer.position(MessageQueue("T", "broker-a", 0)) == MESSAGES
        assert again == [(0, 2), (0, 3), (0, 4)]
        await eventually(lambda: broker.offsets["T", 0] == MESSAGES)
