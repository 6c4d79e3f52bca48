import pytest
from scripted_broker import scripted

from gantry_link.clients.store import StoreClient
from gantry_link.errors import BrokerRefused
from gantry_wire.bodies.admin import (
    ConsumerConnection,
    ConsumeStats,
    OffsetWrapper,
    ProducerConnection,
    TopicOffset,
    TopicStatsTable,
)
from gantry_wire.bodies.clients import ConsumerIdList, HeartbeatData, ResetOffsetBody
from gantry_wire.bodies.cluster import (
    GroupList,
    KVTable,
    MessageQueue,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from gantry_wire.bodies.json_body import encode_body
from gantry_wire.headers.admin import CreateTopicHeader, ResetOffsetHeader

pytestmark = pytest.mark.anyio

QUEUE = MessageQueue(broker_name="broker-a", queue_id=0, topic="T")
TOPICS = TopicConfigSerializeWrapper(topic_config_table={"T": TopicConfig(topic_name="T")})
GROUPS = SubscriptionGroupWrapper(subscription_group_table={"g": SubscriptionGroupConfig(group_name="g")})
STATS = TopicStatsTable(offset_table={QUEUE: TopicOffset(max_offset=9)})
PROGRESS = ConsumeStats(offset_table={QUEUE: OffsetWrapper(broker_offset=9, consumer_offset=3)})
RESET = ResetOffsetHeader(topic="T", group="g", timestamp=-1, is_force=True)
RESET_TO = ResetOffsetBody(offset_table={QUEUE: 5}, given_again=2)


def body(value):
    return (0, None, encode_body(value))


@pytest.mark.parametrize(
    ("ask", "code", "answer", "result"),
    [
        (lambda c: c.topics(), 21, body(TOPICS), TOPICS),
        (lambda c: c.groups(), 201, body(GROUPS), GROUPS),
        (lambda c: c.topic_stats("T"), 202, body(STATS), STATS),
        (lambda c: c.consume_stats("g", "T"), 208, body(PROGRESS), PROGRESS),
        (lambda c: c.groups_of_topic("T"), 300, body(GroupList(group_list=["g"])), ["g"]),
        (lambda c: c.consumer_ids("g"), 38, body(ConsumerIdList(consumer_id_list=["c"])), ["c"]),
        (lambda c: c.consumer_ids("g"), 38, (1, None, b"", "no consumer for this group, g"), []),
        (lambda c: c.consumer_connection("g"), 203, body(ConsumerConnection()), ConsumerConnection()),
        (lambda c: c.consumer_connection("g"), 203, (206,), None),
        (lambda c: c.producer_connection("g"), 204, body(ProducerConnection()), ProducerConnection()),
        (lambda c: c.runtime_info(), 28, body(KVTable(table={"k": "v"})), {"k": "v"}),
        (lambda c: c.broker_config(), 26, (0, {"version": "{}"}, b"flushDiskType=SYNC_FLUSH\n"), {"flushDiskType": "SYNC_FLUSH"}),
        (lambda c: c.reset_offsets(RESET), 222, body(RESET_TO), RESET_TO),
    ],
)  # fmt: skip
async def test_queries_return_their_typed_answers(ask, code, answer, result):
    async with scripted({code: answer}) as (script, address, pool):
        assert await ask(StoreClient(pool, address)) == result
        assert script.last.code == code


@pytest.mark.parametrize(
    ("order", "code", "fields", "sent"),
    [
        (lambda c: c.create_topic(CreateTopicHeader(topic="T", read_queue_nums=8, write_queue_nums=8, perm=6)),
         17, {"topic": "T", "readQueueNums": "8", "perm": "6"}, b""),
        (lambda c: c.delete_topic("T"), 215, {"topic": "T"}, b""),
        (lambda c: c.put_group(SubscriptionGroupConfig(group_name="g")), 200, {}, encode_body(SubscriptionGroupConfig(group_name="g"))),
        (lambda c: c.delete_group("g", clean_offset=True), 207, {"groupName": "g", "cleanOffset": "true", "removeOffset": "true"}, b""),
        (lambda c: c.heartbeat(HeartbeatData(client_id="c")), 34, {}, encode_body(HeartbeatData(client_id="c"))),
        (lambda c: c.unregister_client("c", consumer_group="g"), 35, {"clientID": "c", "consumerGroup": "g"}, b""),
        (lambda c: c.update_broker_config({"a": "b"}), 25, {}, b"a=b\n"),
    ],
)  # fmt: skip
async def test_changes_send_their_header_and_body(order, code, fields, sent):
    async with scripted({code: (0,)}) as (script, address, pool):
        await order(StoreClient(pool, address))
        assert (script.last.code, script.last.body) == (code, sent)
        assert fields.items() <= script.last.ext.items()
        script.answers[code] = (16, None, b"", "not allowed")
        with pytest.raises(BrokerRefused, match="code 16: not allowed"):
            await order(StoreClient(pool, address))


async def test_another_failure_of_the_consumer_list_is_a_refusal():
    async with scripted({38: (1, None, b"", "broken")}) as (_, address, pool):
        with pytest.raises(BrokerRefused):
            await StoreClient(pool, address).consumer_ids("g")
