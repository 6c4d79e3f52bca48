"""Requests 34, 35, 38, 46 and the pushed 40, as Java and C++ clients use them."""

import asyncio

import pytest
from memory_store import MemoryPeer
from reading_side import ReadingSide

from broker_store.ports import ACTING_USER
from gantry_guard import callers
from gantry_wire.bodies.clients import ConsumerIdList
from gantry_wire.bodies.json_body import decode_body
from gantry_wire.codes import ResponseCode
from gantry_wire.names import GATEWAY_GROUP

pytestmark = pytest.mark.anyio

JAVA = (
    b'{"clientID":"10.0.0.1@7","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET",'
    b'"consumeType":"CONSUME_PASSIVELY","groupName":"g","messageModel":"CLUSTERING","subscriptionDataSet":'
    b'[{"classFilterMode":false,"codeSet":[2598919],"expressionType":"TAG","subString":"TagA","subVersion":5,'
    b'"tagsSet":["TagA"],"topic":"orders"}],"unitMode":false}],"heartbeatFingerprint":0,'
    b'"producerDataSet":[{"groupName":"p"}],"withoutSub":false}'
)
CPP = (
    b'{"clientID":"10.0.0.2@8","consumerDataSet":[{"consumeFromWhere":0,"consumeType":1,"groupName":"g",'
    b'"messageModel":1,"subscriptionDataSet":[{"codeSet":[0,0],"subString":"TagA || TagB","subVersion":"6",'
    b'"tagsSet":["TagA","TagB"],"topic":"orders"}]}],"producerDataSet":[]}\n'
)


@pytest.fixture
async def side(tmp_path):
    side = ReadingSide(tmp_path)
    yield side
    await side.consuming.stop()


async def test_another_user_does_not_take_the_id_of_a_connected_client(side):
    clients = side.consuming.clients
    asker, again, thief = MemoryPeer(), MemoryPeer(), MemoryPeer()
    for peer, user in ((asker, "alice"), (thief, "mallory")):
        peer.attributes[ACTING_USER] = user
        await side.ask(34, body=JAVA, peer=peer)
    assert clients.find_producer("10.0.0.1@7").peer is asker
    again.attributes[ACTING_USER] = "alice"
    await side.ask(34, body=JAVA, peer=again)
    assert clients.find_producer("10.0.0.1@7").peer is again
    again.is_closing = True
    await side.ask(34, body=JAVA, peer=thief)
    assert clients.find_producer("10.0.0.1@7").peer is thief


def test_the_attribute_is_the_one_that_doors_set():
    assert ACTING_USER == callers.ACTING_USER


async def pushes(peer):
    """Return the groups of the pushed 40s so far."""
    await asyncio.sleep(0)
    return [
        frame.ext["consumerGroup"]
        for frame in peer.answers()
        if frame.code == 40 and frame.is_oneway and not frame.is_response
    ]


async def test_a_heartbeat_registers_producer_and_consumer_and_makes_group_and_retry_topic(side):
    assert (await side.ask(34, body=JAVA)).code == ResponseCode.SUCCESS
    assert list(side.consuming.clients.producers) == ["p"]
    assert side.consuming.groups.find("g") is not None
    retry = side.store.topics.find("%RETRY%g")
    assert (retry.read_queue_nums, retry.write_queue_nums, retry.perm) == (1, 1, 6)
    assert decode_body(
        (await side.ask(38, {"consumerGroup": "g"})).body, ConsumerIdList
    ).consumer_id_list == ["10.0.0.1@7"]


async def test_a_heartbeat_of_the_cpp_client_counts_by_its_expression_not_its_codes(side):
    await side.ask(34, body=CPP)
    subscription = side.consuming.clients.consumers["g"].subscriptions["orders"]
    assert subscription.code_set == [2598919, 2598920]
    assert (subscription.sub_version, subscription.expression_type) == (6, "TAG")


async def test_members_are_notified_when_another_joins_and_leaves(side):
    first, second = MemoryPeer(), MemoryPeer()
    side.send(34, body=JAVA, peer=first)
    assert await pushes(first) == ["g"]
    side.send(34, body=JAVA, peer=first)
    assert await pushes(first) == []
    side.send(34, body=CPP, peer=second)
    assert (await pushes(first), await pushes(second)) == (["g"], ["g"])
    side.consuming.closed(second)
    assert await pushes(first) == ["g"]


async def test_many_changes_of_one_turn_are_reported_once(side):
    peers = [MemoryPeer() for _ in range(20)]
    for peer in peers:
        side.send(34, body=JAVA, peer=peer)
    assert [await pushes(peer) for peer in peers] == [["g"]] * 20


async def test_a_group_may_be_spared_the_notices(side):
    side.consuming.groups.find_or_create("g").notify_consumer_ids_changed_enable = False
    side.send(34, body=JAVA)
    assert await pushes(side.peer) == []


async def test_unregistering_with_empty_names_touches_nothing_else(side):
    await side.ask(34, body=JAVA)
    await side.ask(35, {"clientID": "10.0.0.1@7", "producerGroup": "p", "consumerGroup": ""})
    assert list(side.consuming.clients.consumers) == ["g"]
    await side.ask(35, {"clientID": "10.0.0.1@7", "consumerGroup": "g"})
    reply = await side.ask(38, {"consumerGroup": "g"})
    assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "no consumer for this group, g")


async def test_a_group_that_may_not_be_created_is_skipped(side):
    side.consuming.groups.set_auto_create(enable=False)
    assert (await side.ask(34, body=JAVA)).code == ResponseCode.SUCCESS
    assert side.consuming.clients.consumers == {}
    assert side.store.topics.find("%RETRY%g") is None


async def test_silent_clients_expire_and_are_disconnected(side):
    await side.ask(34, body=JAVA)
    side.clock_ms += 3_600_000  # a step of the wall clock
    side.consuming._expire()
    assert not side.peer.is_closing
    side.steady_ms += 120_001
    side.consuming._expire()
    assert side.peer.is_closing
    assert side.consuming.clients.consumers == {}


async def test_a_heartbeat_without_an_id_is_refused_by_name(side):
    assert "clientID" in ((await side.ask(34, body=b'{"clientID":""}')).remark or "")
    assert (await side.ask(34, body=b"[1")).code == ResponseCode.SYSTEM_ERROR


async def test_the_gateways_group_cannot_be_changed(side):
    body = b'{"groupName":"%s"}' % GATEWAY_GROUP.encode()
    assert (await side.ask(200, body=body)).code == ResponseCode.INVALID_PARAMETER
