"""Request 222: offsets set by time, offset, earliest, latest.

Connected clients get them with their next pull, or are notified.
"""

import asyncio

import pytest
from memory_store import MemoryPeer
from reading_side import COMMIT, SUSPEND, WITH_SUBSCRIPTION, ReadingSide, pull_fields

from broker_store.client_requests.resetting.reset_handler import Resetting
from broker_store.groups.pending_resets import PendingResets
from broker_store.requests.deferred_replies import DeferredReplies
from gantry_wire.bodies import fastjson
from gantry_wire.bodies.clients import ConsumerData, HeartbeatData, ResetOffsetBody, SubscriptionData
from gantry_wire.bodies.cluster import MessageQueue
from gantry_wire.bodies.json_body import decode_body, encode_body
from gantry_wire.codes import ResponseCode
from gantry_wire.headers.messages import PullReplyHeader

pytestmark = pytest.mark.anyio
GENEROUS_SECONDS = 60


@pytest.fixture
async def side(tmp_path):
    side = ReadingSide(tmp_path)
    consuming = side.consuming
    side.deferred = DeferredReplies(side.classes["adminBroker"], side.now_ms)
    side.resetting = Resetting(
        side.store.topics,
        consuming.groups,
        side.store,
        consuming.clients,
        consuming.offsets,
        consuming.keeper,
        consuming.pulls,
        consuming.resets,
        consuming.searching,
        side.settings,
        side.deferred,
        "broker-a",
        lambda *_queue: 0,
    )
    side.commands |= side.resetting.commands()
    for n in range(10):
        side.put(b"%d" % n, store_ms=1000 * n)
    side.put(b"x", queue_id=1, store_ms=9000)
    consuming.groups.find_or_create("readers")
    yield side
    await side.deferred.close()
    await consuming.stop()


def fields(timestamp=-1, **more):
    base = {"topic": "orders", "group": "readers", "timestamp": str(timestamp), "isForce": "true"}
    return base | {name: str(value) for name, value in more.items()}


def table(reply):
    body = decode_body(reply.body, ResetOffsetBody)
    return {queue.queue_id: offset for queue, offset in body.offset_table.items()}


async def online(side, peer=None, language="JAVA"):
    subscription = SubscriptionData(topic="orders")
    consumer = ConsumerData(group_name="readers", subscription_data_set=[subscription])
    body = encode_body(HeartbeatData(client_id="c1", consumer_data_set=[consumer]))
    await side.ask(34, body=body, peer=peer)
    (client,) = side.consuming.clients.consumers["readers"].clients.values()
    client.language = language


async def committed(side, queue_id=0):
    reply = await side.ask(14, {"consumerGroup": "readers", "topic": "orders", "queueId": str(queue_id)})
    return int(reply.ext["offset"])


async def commit(side, offset, queue_id=0):
    named = {"consumerGroup": "readers", "topic": "orders", "queueId": queue_id, "commitOffset": offset}
    return await side.ask(15, {name: str(value) for name, value in named.items()})


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"timestamp": -1}, {0: 10, 1: 1, 2: 0, 3: 0}),
        ({"timestamp": 0}, {0: 0, 1: 0, 2: 0, 3: 0}),
        ({"timestamp": 4500}, {0: 5, 1: 0, 2: 0, 3: 0}),
        ({"timestamp": 4000, "queueId": 0}, {0: 4}),
        ({"timestamp": 0, "queueId": 0, "offset": 7}, {0: 7}),
        ({"timestamp": -1, "queueId": 0, "offset": -1}, {0: 10}),
    ],
    ids=["latest", "earliest", "time", "time of one queue", "offset", "no offset"],
)
async def test_offsets_are_set_and_answered(side, more, expected):
    assert table(await side.ask(222, fields(**more))) == expected
    assert await committed(side) == expected[0]


async def test_a_dry_run_answers_and_changes_nothing(side):
    await commit(side, 3)
    assert table(await side.ask(222, fields(0, dryRun="true")))[0] == 0
    assert await committed(side) == 3


@pytest.mark.parametrize(
    ("more", "code", "remark"),
    [
        ({"topic": "nowhere"}, ResponseCode.TOPIC_NOT_EXIST, "Topic nowhere does not exist"),
        ({"group": "nobody"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "Group nobody does not exist"),
        ({"queueId": 4}, ResponseCode.INVALID_PARAMETER, "has 4 queues"),
        ({"queueId": 0, "offset": 11}, ResponseCode.INVALID_PARAMETER, "range [0-10]"),
        ({"queueId": 0, "offset": -5}, ResponseCode.INVALID_PARAMETER, "range [0-10]"),
    ],
)
async def test_an_impossible_reset_is_refused(side, more, code, remark):
    reply = await side.ask(222, fields(**more))
    assert (reply.code, remark in reply.remark) == (code, True)
    assert side.consuming.offsets.topics_of("readers") == []


async def test_a_group_without_clients_resumes_there(side):
    await side.ask(222, fields(0, queueId=0, offset=4))
    assert not side.consuming.resets
    assert (await side.ask(11, pull_fields(4))).code == ResponseCode.SUCCESS


async def test_a_client_gets_it_once_with_its_next_pull(side):
    await online(side)
    await commit(side, 8)
    await side.ask(222, fields(queueId=0, offset=2))
    reply = await side.ask(11, pull_fields(8))
    assert (reply.code, reply.remark) == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET")
    assert reply.read(PullReplyHeader).next_begin_offset == 2
    assert (await side.ask(11, pull_fields(8))).code == ResponseCode.SUCCESS


async def test_until_then_its_commits_are_ignored(side):
    await online(side)
    await side.ask(222, fields(queueId=0, offset=2))
    reply = await commit(side, 9)
    assert (reply.code, reply.remark) == (0, "Offset has been previously reset")
    flags = WITH_SUBSCRIPTION | COMMIT
    await side.ask(11, pull_fields(9, sysFlag=flags, commitOffset=9))
    assert await committed(side) == 2
    await commit(side, 3)
    assert await committed(side) == 3


async def test_a_one_way_commit_during_a_reset_gets_no_answer(side):
    await online(side)
    await side.ask(222, fields(queueId=0, offset=2))
    side.send(
        15, {"consumerGroup": "readers", "topic": "orders", "queueId": "0", "commitOffset": "9"}, oneway=True
    )
    assert side.peer.answers() == []
    assert await committed(side) == 2


async def test_a_pull_from_the_new_place_is_answered_as_always(side):
    await online(side)
    await side.ask(222, fields(queueId=0, offset=2))
    assert (await side.ask(11, pull_fields(2))).code == ResponseCode.SUCCESS
    assert not side.consuming.resets


async def test_a_held_pull_of_the_group_is_answered_and_others_stay_held(side):
    peer, other = MemoryPeer(), MemoryPeer()
    await online(side, peer)
    held = pull_fields(10, sysFlag=SUSPEND | WITH_SUBSCRIPTION, suspendTimeoutMillis=60_000)
    side.send(11, held, peer=peer)
    side.send(11, held | {"consumerGroup": "others"}, peer=other)
    await side.ask(222, fields(queueId=0, offset=2))
    (answered,) = [
        frame for frame in peer.answers() if frame.is_response
    ]  # besides: the group has changed (40)
    assert answered.remark == "OFFSET_RESET"
    assert other.answers() == []
    assert side.consuming.pulls.held_count == 1


async def test_a_group_whose_clients_left_may_commit_again(side):
    peer = MemoryPeer()
    await online(side, peer)
    await side.ask(222, fields(queueId=0, offset=2))
    side.consuming.closed(peer)
    await commit(side, 6)
    assert await committed(side) == 6


async def test_a_reset_survives_a_restart(side, tmp_path):
    await side.ask(222, fields(queueId=0, offset=6))
    again = ReadingSide(tmp_path, after=side)
    assert again.consuming.offsets.find("readers", "orders", 0) == 6
    await again.consuming.stop()


@pytest.fixture
def client_side_resets(side):
    side.settings.server_side_reset = False
    return side


async def test_as_before_5_the_clients_are_notified_and_commit_themselves(client_side_resets):
    peer = MemoryPeer()
    await online(client_side_resets, peer)
    for queue_id in range(4):
        await commit(client_side_resets, 5, queue_id)
    peer.answers()
    reply = await client_side_resets.ask(222, fields(0, isForce="false"))
    assert table(reply)[0] == 0
    push = peer.answer()
    assert (push.code, push.is_oneway) == (220, True)
    assert push.ext["group"] == "readers"
    queue = MessageQueue(broker_name="broker-a", queue_id=0, topic="orders")
    assert decode_body(push.body, ResetOffsetBody).offset_table[queue] == 0
    assert await committed(client_side_resets) == 5


async def test_cpp_clients_get_a_list(client_side_resets):
    peer = MemoryPeer()
    await online(client_side_resets, peer, "CPP")
    await commit(client_side_resets, 5)
    peer.answers()
    await client_side_resets.ask(222, fields(0, queueId=0))
    content = fastjson.loads(peer.answer().body)
    assert content == {
        "offsetTable": [{"brokerName": "broker-a", "offset": 0, "queueId": 0, "topic": "orders"}]
    }


async def test_without_force_no_queue_moves_forward(client_side_resets):
    await online(client_side_resets)
    await commit(client_side_resets, 5)
    assert table(await client_side_resets.ask(222, fields(-1, queueId=0, isForce="false"))) == {0: 5}
    assert table(await client_side_resets.ask(222, fields(-1, queueId=0))) == {0: 10}


async def test_an_offline_client_cannot_be_notified(client_side_resets):
    assert (await client_side_resets.ask(222, fields(0, queueId=0))).code == ResponseCode.SYSTEM_ERROR
    await commit(client_side_resets, 5)
    assert (await client_side_resets.ask(222, fields(0, queueId=0))).code == ResponseCode.CONSUMER_NOT_ONLINE


async def test_a_deleted_topic_leaves_nothing_pending():
    pending = PendingResets()
    pending.assign("g", "orders", 0, 5)
    pending.assign("g", "other", 0, 5)
    pending.forget_topic("orders")
    assert not pending.is_pending("g", "orders", 0)
    assert pending.take("g", "other", 0, 1) == 5
    await asyncio.sleep(0)


@pytest.mark.parametrize("gone", ["topic", "group"])
async def test_what_is_deleted_during_a_reset_gets_no_offset(side, monkeypatch, gone):
    async def delete_and_read(call, *arguments):
        if gone == "topic":
            side.store.topics.configs.pop("orders", None)
        else:
            side.consuming.groups.delete("readers")
        return call(*arguments)

    monkeypatch.setattr(side.consuming.searching, "_in_thread", delete_and_read)
    reply = await side.ask(222, fields(5000))
    missing = {"topic": ResponseCode.TOPIC_NOT_EXIST, "group": ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST}
    assert reply.code == missing[gone]
    assert side.consuming.offsets.find("readers", "orders", 0) is None
