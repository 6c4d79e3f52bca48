"""How members of a group learn that they pop, and which queues they pull otherwise."""

import json

import pytest
from reading_side import ReadingSide

from broker_store.pop.assignments import POP_ATTRIBUTE, AssignmentHandlers, share
from broker_store.requests.deferred_replies import DeferredReplies
from gantry_link.errors import LinkError
from gantry_wire.bodies.cluster import QueueData, TopicRouteData
from gantry_wire.bodies.json_body import decode_body
from gantry_wire.bodies.pop import AssignmentsBody
from gantry_wire.codes import ResponseCode

HEARTBEAT = {
    "clientID": "one",
    "consumerDataSet": [
        {
            "groupName": "readers", "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "subscriptionDataSet": [], "unitMode": False,
        }
    ],
    "producerDataSet": [],
}  # fmt: skip

pytestmark = pytest.mark.anyio


@pytest.fixture
async def side(tmp_path):
    side = ReadingSide(tmp_path)
    consuming = side.consuming
    later = DeferredReplies(side.classes["loadBalance"], side.now_ms)
    side.brokers = {"broker-a": 2, "broker-b": 2}

    async def route(_topic):
        if not side.brokers:
            raise LinkError("no nameserver answers", sent=False)
        queues = [
            QueueData(broker_name=name, perm=6, read_queue_nums=count, write_queue_nums=count)
            for name, count in side.brokers.items()
        ]
        return TopicRouteData(queue_datas=queues)

    part = AssignmentHandlers(
        side.store.topics,
        consuming.groups,
        consuming.clients,
        consuming.group_records,
        later,
        route,
        "broker-a",
    )
    side.commands.update(part.commands())
    consuming.groups.find_or_create("readers")
    yield side
    await later.close()
    await consuming.stop()


async def set_mode(side, mode, topic="orders", group="readers"):
    body = json.dumps({"consumerGroup": group, "mode": mode, "popShareQueueNum": 0, "topic": topic}).encode()
    return await side.ask(401, body=body)


async def assigned(side, **fields):
    asked = {
        "clientId": "one", "consumerGroup": "readers", "messageModel": "CLUSTERING", "strategyName": "AVG",
        "topic": "orders", **fields,
    }  # fmt: skip
    answer = await side.ask(400, body=json.dumps(asked).encode())
    assert answer.code == 0, answer.remark
    found = decode_body(answer.body, AssignmentsBody).message_queue_assignments
    return [(one.message_queue.broker_name, one.message_queue.queue_id, one.mode) for one in found]


async def test_a_group_that_pops_has_all_queues_of_each_broker(side):
    assert (await set_mode(side, "POP")).code == 0
    assert await assigned(side) == [("broker-a", -1, "POP"), ("broker-b", -1, "POP")]
    side.brokers = {}
    assert await assigned(side) == [("broker-a", -1, "POP")]


async def test_the_mode_is_in_the_groups_attributes_and_ends_with_pull(side):
    groups = side.consuming.groups
    await set_mode(side, "POP")
    assert groups.find("readers").attributes == {POP_ATTRIBUTE: "orders"}
    await set_mode(side, "PULL")
    assert groups.find("readers").attributes == {}


async def test_a_member_that_pulls_has_its_share(side):
    assert await assigned(side) == [], "the broker does not know the member"
    await side.ask(34, body=json.dumps(HEARTBEAT).encode())
    assert await assigned(side) == [
        ("broker-a", 0, "PULL"), ("broker-a", 1, "PULL"), ("broker-b", 0, "PULL"), ("broker-b", 1, "PULL"),
    ]  # fmt: skip


async def test_a_group_that_pops_all_its_topics_does_not_pull_its_retry_topic_too(side):
    subscriptions = [{"topic": name, "subString": "*"} for name in ("orders", "%RETRY%readers")]
    heartbeat = json.loads(json.dumps(HEARTBEAT))
    heartbeat["consumerDataSet"][0]["subscriptionDataSet"] = subscriptions
    await side.ask(34, body=json.dumps(heartbeat).encode())
    assert len(await assigned(side, topic="%RETRY%readers")) == 4
    await set_mode(side, "POP")
    assert await assigned(side, topic="%RETRY%readers") == []
    subscriptions.append({"topic": "pulled", "subString": "*"})
    await side.ask(34, body=json.dumps(heartbeat).encode())
    assert len(await assigned(side, topic="%RETRY%readers")) == 4


@pytest.mark.parametrize(
    ("topic", "group", "mode", "code"),
    [
        ("orders", "readers", "PULL", ResponseCode.SUCCESS),
        ("orders", "readers", "PUSH", ResponseCode.INVALID_PARAMETER),
        ("orders", "nobody", "POP", ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ("nowhere", "readers", "POP", ResponseCode.TOPIC_NOT_EXIST),
        ("%RETRY%readers", "readers", "POP", ResponseCode.NO_PERMISSION),
    ],
)
async def test_a_mode_that_rocketmq_refuses_is_refused(side, topic, group, mode, code):
    assert (await set_mode(side, mode, topic, group)).code == code


@pytest.mark.parametrize("strategy", ["AVG", "AVG_BY_CIRCLE"])
@pytest.mark.parametrize("count", range(1, 8))
def test_shares_are_disjoint_complete_and_even(strategy, count):
    queues = [("broker-a", number) for number in range(5)]
    shares = [share(queues, place, count, strategy) for place in range(count)]
    assert sorted(one for each in shares for one in each) == queues
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
