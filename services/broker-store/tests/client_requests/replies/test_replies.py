"""Requests 324 and 325: a reply reaches the client that made the request and is stored in the reply topic.

The client's answer decides the code.
"""

import asyncio
from types import SimpleNamespace

import pytest
from memory_store import MemoryPeer
from sending_side import SendingSide, send_header

from broker_store.client_requests.replies.reply_handler import Replies
from broker_store.groups.clients import Client, ClientTable
from broker_store.process.parts.sending import build_stamp
from broker_store.requests.deferred_replies import DeferredReplies
from gantry_link.errors import RequestTimedOut
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import Command, decode_command
from gantry_wire.frames.encode import encode_request
from gantry_wire.frames.frame_stream import FrameDecoder
from gantry_wire.headers.messages import SendHeader
from gantry_wire.messages.properties import format_properties, parse_properties
from gantry_wire.records.message_record import scan_records

pytestmark = pytest.mark.anyio
GENEROUS_SECONDS = 60
TOPIC = "DefaultCluster_REPLY_TOPIC"
ASKED = {
    "CORRELATION_ID": "7",
    "REPLY_TO_CLIENT": "asker",
    "TTL": "3000",
    "MSG_TYPE": "reply",
    "UNIQ_KEY": "U1",
}


@pytest.fixture
async def side():
    side = SendingSide()
    side.clients = ClientTable()
    side.asker = MemoryPeer()
    side.clients.register_producer("pg", Client(side.asker, "asker", "JAVA", 400, 0, 0))
    side.switch = SimpleNamespace(store_replies=True)
    side.deferred = DeferredReplies(side.classes["reply"], side.clock.now_ms)
    side.replies = Replies(
        side.clients,
        side.sending.targets,
        side.appends,
        build_stamp(side.store),
        side.switch,
        side.deferred,
        side.clock.now_ms,
        1000,
    )
    yield side
    await side.deferred.cancel()


def send(side, properties=ASKED, body=b"42", code=325, topic=TOPIC, **more):
    header = send_header(topic, properties=format_properties(properties).decode(), sys_flag=1, **more)
    if code == 324:
        header = SendHeader(**{name: getattr(header, name) for name in SendHeader.__struct_fields__})
    frame = encode_request(code, 5, header, body)
    peer = MemoryPeer(port=41000)
    command = decode_command(FrameDecoder().receive(frame)[0])
    side.replies.reply(peer, command)
    return peer


async def until(condition):
    async with asyncio.timeout(GENEROUS_SECONDS):
        while not (found := condition()):
            await asyncio.sleep(0.002)
    return found


@pytest.mark.parametrize("code", [324, 325])
async def test_a_reply_is_pushed_to_the_client_that_asked(side, code):
    peer = send(side, code=code)
    (asked, fields, body, answer) = (await until(lambda: side.asker.asked)).pop()
    assert (asked, body) == (326, b"42")
    assert (fields["bornHost"], fields["storeHost"]) == ("127.0.0.1:41000", "127.0.0.1:10911")
    assert (fields["sysFlag"], fields["producerGroup"], fields["topic"]) == ("1", "pg", TOPIC)
    properties = parse_properties(fields["properties"])
    assert properties.pop("PUSH_REPLY_TIME") == fields["storeTimestamp"]
    added = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
    assert properties == ASKED | added
    assert peer.answers() == []
    answer.set_result(Command(code=0))
    await until(lambda: not side.appends.is_idle)
    side.flush()
    (reply,) = await until(peer.answers)
    (record,) = side.records(TOPIC)
    place = {"msgId": f"7F00000100002A9F{record.position:016X}", "queueId": "0", "queueOffset": "0"}
    assert (reply.code, reply.opaque, reply.ext) == (0, 5, place | added)


async def test_the_reply_is_kept_in_its_topic_without_flags_of_compression(side):
    send(side)
    *_, answer = (await until(lambda: side.asker.asked)).pop()
    answer.set_result(Command(code=0))
    await until(lambda: not side.appends.is_idle)
    side.flush()
    (record,) = side.records(TOPIC)
    assert (record.body, record.sys_flag) == (b"42", 0)
    assert record.property_map()["CORRELATION_ID"] == "7"


async def test_a_reply_of_a_topic_deleted_meanwhile_uses_no_offset_twice(side):
    topic, topics = "other_REPLY_TOPIC", side.store.topics
    config = topics.ensure(topic, 1)
    peers = [send(side, topic=topic)]
    *_, answer = (await until(lambda: side.asker.asked)).pop()
    side.sending.removal.remove(config, lambda _refusal: None)
    side.flush()
    topics.ensure(topic, 1)
    peers.append(send(side, topic=topic))
    *_, answer_to_second = (await until(lambda: side.asker.asked)).pop()
    for one in (answer, answer_to_second):
        one.set_result(Command(code=0))
        await until(lambda: not side.appends.is_idle)
        side.flush()
    for peer in peers:
        await until(peer.answers)
    written = side.files.read_bytes(side.log.segments[0].path)[: side.log.written_end]
    offsets = [record.queue_offset for record in scan_records(written) if record.topic == topic.encode()]
    assert offsets == [0, 1]
    assert len(side.records(topic)) == 2


async def test_storing_can_be_switched_off(side):
    side.switch.store_replies = False
    peer = send(side)
    *_, answer = (await until(lambda: side.asker.asked)).pop()
    answer.set_result(Command(code=0))
    (reply,) = await until(peer.answers)
    assert (reply.code, reply.ext["msgId"]) == (0, "0")
    assert side.appends.is_idle


@pytest.mark.parametrize(
    ("changes", "remark"),
    [
        ({"REPLY_TO_CLIENT": "stranger"}, "push reply message fail, channel of <stranger> not found."),
        ({"REPLY_TO_CLIENT": ""}, "reply message properties[REPLY_TO_CLIENT] is null"),
    ],
)
async def test_an_absent_client_gets_no_reply_but_it_is_stored(side, changes, remark):
    peer = send(side, {name: value for name, value in (ASKED | changes).items() if value})
    (reply,) = await until(peer.answers)
    assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, remark)
    side.flush()
    assert len(side.records(TOPIC)) == 1


@pytest.mark.parametrize("result", [Command(code=1), RequestTimedOut("late", sent=True)])
async def test_a_reply_the_client_does_not_accept_is_an_error(side, result):
    peer = send(side)
    *_, answer = (await until(lambda: side.asker.asked)).pop()
    if isinstance(result, Command):
        answer.set_result(result)
    else:
        answer.set_exception(result)
    (reply,) = await until(peer.answers)
    assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "push reply message to askerfail.")


async def test_a_reply_that_cannot_be_sent_at_all_is_refused(side):
    with pytest.raises(Exception, match="the limit is 1000"):
        send(side, body=b"x" * 1001)
    with pytest.raises(Exception, match="topic\\[nowhere_REPLY_TOPIC\\] not exist"):
        send(side, topic="nowhere_REPLY_TOPIC", default_topic="none")


@pytest.mark.parametrize(
    "topic", ["orders", "REPLY_TOPIC", "%RETRY%g", "DefaultCluster_REPLY_TOPIC_", "rmq_sys_wheel_timer"]
)
async def test_a_reply_reaches_reply_topics_only(side, topic):
    side.queues.open("orders", 0)
    with pytest.raises(RefusedRequest, match="use a send request"):
        send(side, topic=topic)
    assert side.appends.is_idle


def test_a_client_is_found_by_its_id_while_any_of_its_groups_lives():
    table, peer, newer = ClientTable(), MemoryPeer(), MemoryPeer()
    for group in ("p", "q"):
        table.register_producer(group, Client(peer, "asker", "JAVA", 400, 0, 0))
    table.unregister(peer.id, "p", "")
    assert table.find_producer("asker").peer is peer
    table.register_producer("p", Client(newer, "asker", "JAVA", 400, 0, 0))
    table.close(peer.id)
    assert table.find_producer("asker").peer is newer
    table.close(newer.id)
    assert table.find_producer("asker") is None
