"""Filters, resets, relays, replies and an extension in a real process, with clients on real connections."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from sending_side import send_header

from gantry_wire.bodies.clients import (
    ConsumerData,
    HeartbeatData,
    ProducerData,
    ResetOffsetBody,
    SubscriptionData,
)
from gantry_wire.bodies.json_body import decode_body, encode_body
from gantry_wire.frames.command import decode_command
from gantry_wire.frames.encode import encode_request, encode_response
from gantry_wire.frames.frame_stream import FrameDecoder
from gantry_wire.messages.properties import format_properties, parse_properties
from gantry_wire.records.message_record import scan_records

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
READY = re.compile(r"ready address=[\d.]+:(\d+) http_port=(\d+)")
ROOT = Path(__file__).resolve().parents[4]
SOURCES = [
    ROOT / part
    for part in ("libs/wire/src", "libs/link/src", "libs/chassis/src", "services/broker-store/src")
]
EXTENSION = """
from broker_store.requests.extensions import Extension
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest

class Guard(Extension):
    def start(self, store):
        self.store = store
    def before_send(self, send):
        if send.properties.get("colour") == "red":
            raise RefusedRequest(ResponseCode.NO_PERMISSION, "nothing red")
    def on_stored(self, stored):
        if stored.topic == "orders":
            self.store.append("seen", 0, b"%d" % stored.messages)
"""


class Client:
    """A client that waits for what it needs, and keeps the rest."""

    def __init__(self, port, name):
        self.name = name
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=120)
        self.decoder = FrameDecoder()
        self.frames = []
        self.opaque = 0

    def ask(self, code, fields=None, body=b""):
        self.send(code, fields, body)
        return self.answer(self.opaque)

    def send(self, code, fields=None, body=b""):
        self.opaque += 1
        self.socket.sendall(encode_request(code, self.opaque, fields, body))

    def answer(self, opaque):
        return self.take(lambda frame: frame.is_response and frame.opaque == opaque)

    def pushed(self, code):
        return self.take(lambda frame: not frame.is_response and frame.code == code)

    def take(self, wanted):
        while True:
            for frame in self.frames:
                if wanted(frame):
                    self.frames.remove(frame)
                    return frame
            data = self.socket.recv(1 << 20)
            assert data, "the store closed the connection"
            self.frames += [decode_command(raw) for raw in self.decoder.receive(data)]

    def heartbeat(self, *subscriptions):
        consumer = ConsumerData(group_name="readers", subscription_data_set=list(subscriptions))
        data = HeartbeatData(
            client_id=self.name,
            producer_data_set=[ProducerData(group_name="pg")],
            consumer_data_set=[consumer] if subscriptions else [],
        )
        assert self.ask(34, body=encode_body(data)).code == 0

    def put(self, body, topic="orders", code=310, **properties):
        text = format_properties(properties).decode()
        return self.ask(code, send_header(topic, properties=text), body)

    def pull(self, offset, topic="orders", **changes):
        fields = {
            "consumerGroup": "readers", "topic": topic, "queueId": "0", "queueOffset": str(offset),
            "maxMsgNums": "32", "sysFlag": "0", "commitOffset": "0", "suspendTimeoutMillis": "1000",
            "subVersion": "0",
        }  # fmt: skip
        return self.ask(11, fields | changes)


@pytest.fixture
def store(tmp_path):
    (tmp_path / "guard_extension.py").write_text(EXTENSION)
    path = os.pathsep.join(map(str, [*SOURCES, tmp_path]))
    settings = [
        f"store_dir={tmp_path / 'store'}",
        "port=0",
        "send_wait_ms_max=60000",
        "extensions=guard_extension:Guard",
    ]
    arguments = [word for setting in settings for word in ("--set", setting)]
    process = subprocess.Popen(
        [sys.executable, "-m", "broker_store", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    lines = []
    for line in process.stderr:
        lines.append(line)
        if found := READY.search(line):
            process.port = int(found[1])
            break
    else:
        raise AssertionError("".join(lines))
    yield process
    if process.poll() is None:
        process.kill()
    process.communicate()


@pytest.fixture
def connect(store):
    clients = []

    def connect(name="c1"):
        clients.append(Client(store.port, name))
        return clients[-1]

    yield connect
    for client in clients:
        client.socket.close()


def bodies(reply):
    return [record.body for record in scan_records(reply.body)]


def test_a_group_reads_what_its_filter_wants_and_its_filter_is_saved(store, connect, tmp_path):
    client = connect()
    for n in range(8):
        assert client.put(b"%d" % n, amount=str(n), region="eu" if n % 2 else "us").code == 0
    expression = "region = 'eu' AND amount BETWEEN 3 AND 6"
    client.heartbeat(
        SubscriptionData(topic="orders", sub_string=expression, expression_type="SQL92", sub_version=1)
    )
    reply = client.pull(0, subVersion="1")
    assert bodies(reply) == [b"3", b"5"]
    assert reply.ext["nextBeginOffset"] == "8"
    given = client.pull(0, sysFlag="4", expressionType="SQL92", subscription="amount > ")
    assert (given.code, given.ext["column"]) == (23, "10")
    store.send_signal(signal.SIGTERM)
    store.communicate(timeout=120)
    assert expression in (tmp_path / "store/config/consumerFilter.json").read_text()


def test_a_reset_reaches_the_group_and_its_held_pull(store, connect):
    consumer, tool = connect("c1"), connect("tool")
    for n in range(5):
        consumer.put(b"%d" % n)
    consumer.heartbeat(SubscriptionData(topic="orders"))
    held = {"sysFlag": "6", "subscription": "*", "suspendTimeoutMillis": "90000"}
    fields = {"topic": "orders", "group": "readers", "timestamp": "0", "isForce": "true", "queueId": "0"}
    consumer.send(11, {
        "consumerGroup": "readers", "topic": "orders", "queueId": "0", "queueOffset": "5", "maxMsgNums": "32",
        "commitOffset": "0", "subVersion": "0", **held,
    })  # fmt: skip
    dry = tool.ask(222, fields | {"dryRun": "true"})
    assert list(decode_body(dry.body, ResetOffsetBody).offset_table.values()) == [0]
    assert tool.ask(222, fields).code == 0
    reply = consumer.answer(consumer.opaque)
    assert (reply.code, reply.remark, reply.ext["nextBeginOffset"]) == (21, "OFFSET_RESET", "0")
    asked = tool.ask(14, {"consumerGroup": "readers", "topic": "orders", "queueId": "0"})
    assert asked.ext["offset"] == "0"


def test_a_tools_request_is_relayed_to_the_client_and_back(store, connect):
    consumer, tool = connect("c1"), connect("tool")
    consumer.heartbeat(SubscriptionData(topic="orders"))
    tool.send(307, {"consumerGroup": "readers", "clientId": "c1", "jstackEnable": "false"})
    question = consumer.pushed(307)
    assert question.ext["clientId"] == "c1"
    consumer.socket.sendall(encode_response(0, question.opaque, body=b'{"properties":{}}'))
    assert tool.answer(tool.opaque).body == b'{"properties":{}}'
    message_id = consumer.put(b"again").ext["msgId"]
    tool.send(309, {"consumerGroup": "readers", "clientId": "c1", "msgId": message_id})
    order = consumer.pushed(309)
    assert bodies(order) == [b"again"]
    consumer.socket.close()
    answer = tool.answer(tool.opaque)
    assert answer.code == 1
    assert "is gone" in answer.remark


def test_a_request_is_answered_by_the_client_that_got_it(store, connect):
    asker, replier = connect("asker"), connect("replier")
    asker.heartbeat()
    asker.put(b"2 + 2?", CORRELATION_ID="77", REPLY_TO_CLIENT="asker", TTL="3000")
    (request,) = scan_records(replier.pull(0, sysFlag="4", subscription="*").body)
    wanted = parse_properties(request.properties)
    replier.opaque += 1
    properties = {name: wanted[name] for name in ("CORRELATION_ID", "REPLY_TO_CLIENT", "TTL")}
    header = send_header(
        f"{wanted['CLUSTER']}_REPLY_TOPIC",
        properties=format_properties(properties | {"MSG_TYPE": "reply"}).decode(),
    )
    replier.socket.sendall(encode_request(325, replier.opaque, header, b"4"))
    push = asker.pushed(326)
    assert (push.body, parse_properties(push.ext["properties"])["CORRELATION_ID"]) == (b"4", "77")
    asker.socket.sendall(encode_response(0, push.opaque))
    assert replier.answer(replier.opaque).code == 0


def test_an_extension_refuses_observes_and_stores(store, connect):
    client = connect()
    refused = client.put(b"stop", colour="red")
    assert (refused.code, refused.remark) == (16, "nothing red")
    assert client.put(b"go", colour="green").code == 0
    seen = client.pull(0, "seen", sysFlag="6", subscription="*", suspendTimeoutMillis="60000")
    assert bodies(seen) == [b"1"]
