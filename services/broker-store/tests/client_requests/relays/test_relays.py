"""Requests 223, 307 and 309: the client gets a tool's request unchanged, and the tool gets the client's answer unchanged."""

import asyncio

import pytest
from memory_store import MemoryPeer
from reading_side import ReadingSide

from broker_store.client_requests.relays.relay_handler import Relays
from broker_store.requests.deferred_replies import DeferredReplies
from gantry_link.errors import ConnectionLost, NotConnected, RequestTimedOut
from gantry_wire.bodies.clients import ConsumerData, GetConsumerStatusBody, HeartbeatData
from gantry_wire.bodies.cluster import MessageQueue
from gantry_wire.bodies.json_body import decode_body, encode_body
from gantry_wire.codes import ResponseCode
from gantry_wire.frames.command import Command
from gantry_wire.messages.ids import offset_message_id, pack_host

pytestmark = pytest.mark.anyio
GENEROUS_SECONDS = 60


@pytest.fixture
async def side(tmp_path):
    side = ReadingSide(tmp_path)
    consuming = side.consuming
    side.deferred = DeferredReplies(side.classes["adminBroker"], side.now_ms)
    relays = Relays(
        consuming.clients,
        side.store.topics,
        side.store.log,
        consuming.in_thread,
        side.deferred,
        "broker-a",
    )
    side.commands |= relays.commands()
    yield side
    await side.deferred.cancel()
    await consuming.stop()


async def client(side, client_id="c1"):
    peer = MemoryPeer()
    body = encode_body(
        HeartbeatData(client_id=client_id, consumer_data_set=[ConsumerData(group_name="readers")])
    )
    await side.ask(34, body=body, peer=peer)
    return peer


async def question(peer):
    async with asyncio.timeout(GENEROUS_SECONDS):
        while not peer.asked:
            await asyncio.sleep(0.002)
    return peer.asked.pop()


async def reply_of(side):
    async with asyncio.timeout(GENEROUS_SECONDS):
        while not (answers := side.peer.answers()):
            await asyncio.sleep(0.002)
    (only,) = answers
    return only


async def test_running_info_is_the_clients_own(side):
    peer = await client(side)
    sent = {"consumerGroup": "readers", "clientId": "c1", "jstackEnable": "true", "other": "kept"}
    opaque = side.send(307, sent)
    code, fields, body, answer = await question(peer)
    assert (code, fields, body) == (307, sent, b"")
    answer.set_result(Command(code=0, opaque=99, body=b'{"properties":{}}', fields={"x": "y"}))
    reply = await reply_of(side)
    assert (reply.code, reply.opaque, reply.body, reply.ext) == (0, opaque, b'{"properties":{}}', {"x": "y"})


@pytest.mark.parametrize("code", [307, 309])
async def test_a_client_gets_no_credentials_of_a_tool_with_which_it_could_send_requests(side, code):
    peer = await client(side)
    side.put(b"first")
    message_id = offset_message_id(pack_host("127.0.0.1", 10911), 0)
    asked = {"consumerGroup": "readers", "clientId": "c1", "msgId": message_id}
    side.send(code, {**asked, "AccessKey": "root", "Signature": "c2lnbmVk", "SecurityToken": "t"})
    _, fields, _, answer = await question(peer)
    assert {"AccessKey", "Signature", "SecurityToken"}.isdisjoint(fields)
    assert asked.items() <= fields.items()
    answer.set_result(Command(code=0))
    await reply_of(side)


async def test_a_message_is_consumed_directly(side):
    peer = await client(side)
    side.put(b"first")
    side.put(b"second")
    position = int.from_bytes(side.store.find("orders", 0).read(1, 1)[:8], "big")
    message_id = offset_message_id(pack_host("127.0.0.1", 10911), position)
    side.send(309, {"consumerGroup": "readers", "clientId": "c1", "msgId": message_id})
    code, fields, body, answer = await question(peer)
    assert (code, fields["brokerName"], fields["topicSysFlag"]) == (309, "broker-a", "0")
    assert body == side.store.log.read_record(position)
    answer.set_result(Command(code=1, remark="no", body=b"{}"))
    reply = await reply_of(side)
    assert (reply.code, reply.remark, reply.body) == (1, "no", b"{}")


@pytest.mark.parametrize(
    "message_id", ["", "zz", offset_message_id(pack_host("127.0.0.1", 10911), 5_000_000)]
)
async def test_a_missing_message_is_named(side, message_id):
    await client(side)
    reply = await side.ask(309, {"consumerGroup": "readers", "clientId": "c1", "msgId": message_id})
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert "no message has the offset message id" in reply.remark


@pytest.mark.parametrize("code", [307, 309])
async def test_an_offline_client_cannot_be_queried(side, code):
    reply = await side.ask(code, {"consumerGroup": "readers", "clientId": "c9"})
    assert (reply.code, reply.remark) == (1, "The Consumer <readers> <c9> not online")


@pytest.mark.parametrize(
    ("error", "code", "remark"),
    [
        (RequestTimedOut("late", sent=True), ResponseCode.CONSUME_MSG_TIMEOUT, "did not answer within 10 s"),
        (ConnectionLost("gone", sent=True), ResponseCode.SYSTEM_ERROR, "the client c1 is gone"),
        (NotConnected("gone"), ResponseCode.SYSTEM_ERROR, "the client c1 is gone"),
    ],
)
async def test_silence_and_loss_have_different_errors(side, error, code, remark):
    peer = await client(side)
    side.send(307, {"consumerGroup": "readers", "clientId": "c1"})
    *_, answer = await question(peer)
    answer.set_exception(error)
    reply = await reply_of(side)
    assert reply.code == code
    assert remark in reply.remark
    assert side.classes["adminBroker"].in_flight == 0


async def test_the_offsets_of_all_clients_are_collected(side):
    queue = MessageQueue(broker_name="broker-a", queue_id=0, topic="orders")
    peers = [await client(side, f"c{n}") for n in range(3)]
    side.send(223, {"topic": "orders", "group": "readers"})
    for number, peer in enumerate(peers):
        code, fields, _, answer = await question(peer)
        assert (code, fields["topic"], fields["group"]) == (221, "orders", "readers")
        body = encode_body(GetConsumerStatusBody(message_queue_table={queue: number}))
        if number == 2:
            answer.set_exception(RequestTimedOut("late", sent=True))
        else:
            answer.set_result(Command(code=0, body=body))
    table = decode_body((await reply_of(side)).body, GetConsumerStatusBody).consumer_table
    assert table == {"c0": {queue: 0}, "c1": {queue: 1}}


async def test_a_single_client_may_be_queried_by_its_id(side):
    await client(side, "c0")
    wanted = await client(side, "c1")
    side.send(223, {"topic": "orders", "group": "readers", "clientAddr": "c1"})
    *_, answer = await question(wanted)
    answer.set_result(Command(code=0, body=b"{}"))
    table = decode_body((await reply_of(side)).body, GetConsumerStatusBody).consumer_table
    assert list(table) == ["c1"]


async def test_a_group_without_clients_has_no_status(side):
    reply = await side.ask(223, {"topic": "orders", "group": "readers"})
    assert reply.code == ResponseCode.CONSUMER_NOT_ONLINE
