"""A client of RocketMQ's gRPC protocol at a whole system: route, settings, send, receive and acknowledgement, plain and by TLS on one port."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import ssl
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from gateway.grpc.proto import METHODS, SERVICE
from gateway.grpc.proto.common import Address, Endpoints, MessageQueue, Resource
from gateway.grpc.proto.duration import duration
from gateway.grpc.proto.enums import AddressScheme, ClientType, Code
from gateway.grpc.proto.message import Message, SystemProperties
from gateway.grpc.proto.receiving import (
    AckMessageEntry,
    AckMessageRequest,
    ReceiveMessageRequest,
    ReceiveMessageResponse,
)
from gateway.grpc.proto.routing import HeartbeatRequest, QueryAssignmentRequest, QueryRouteRequest
from gateway.grpc.proto.sending import SendMessageRequest
from gateway.grpc.proto.settings import Settings, Subscription
from gateway.grpc.proto.telemetry import TelemetryCommand

pytestmark = [pytest.mark.cluster, pytest.mark.anyio, pytest.mark.timeout(400)]
ROOT = Path(__file__).parents[2]
TOPIC, GROUP = Resource(name="orders"), Resource(name="g1")


def _load_client() -> Any:
    """Import the client of the link's tests, which shares no code with the server."""
    spec = importlib.util.spec_from_file_location("link_grpc_client", ROOT / "libs/link/tests/grpc_client.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


link = _load_client()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def call(method: str, url: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def metrics_of(http: str) -> str:
    with urllib.request.urlopen(f"{http}/metrics", timeout=60) as answer:
        return answer.read().decode()


def trusting() -> ssl.SSLContext:
    """Return what Java's client uses: TLS with any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context


class Consumer:
    """One client on one connection."""

    def __init__(self, client: Any, port: int, name: str) -> None:
        self.client, self.port = client, port
        self.more = [
            ("x-mq-client-id", name),
            ("x-mq-language", "PYTHON"),
            ("x-mq-client-version", "5.1.2"),
            ("grpc-timeout", "30S"),
        ]

    @property
    def endpoints(self) -> Endpoints:
        return Endpoints(scheme=AddressScheme.IPv4, addresses=[Address(host="127.0.0.1", port=self.port)])

    async def messages(self, name: str, request: Any) -> list[bytes]:
        stream = self.client.begin(f"/{SERVICE}/{name}", more=self.more)
        self.client.send(stream, link.framed(request.SerializeToString()), is_end=True)
        answer = self.client.answers[stream]
        await self.client.until(lambda: answer.is_over)
        assert answer.status == 0, answer.text
        return answer.messages

    async def ask(self, name: str, request: Any) -> Any:
        (message,) = await self.messages(name, request)
        response: Any = METHODS[name].response.FromString(message)
        assert response.status.code == Code.OK, response.status
        return response

    async def settings(self) -> Settings:
        """Open a Telemetry stream, which stays open, and return the answer to the first settings."""
        stream = self.client.begin(f"/{SERVICE}/Telemetry", more=self.more)
        settings = Settings(client_type=ClientType.SIMPLE_CONSUMER, subscription=Subscription(group=GROUP))
        command = TelemetryCommand(settings=settings)
        self.client.send(stream, link.framed(command.SerializeToString()))
        answer = self.client.answers[stream]
        await self.client.until(lambda: answer.messages)
        found = TelemetryCommand.FromString(answer.messages[0])
        assert found.status.code == Code.OK
        assert not answer.is_over
        return found.settings

    async def receive(self, queue: MessageQueue) -> list[Message]:
        asked = ReceiveMessageRequest(
            group=GROUP,
            message_queue=queue,
            batch_size=8,
            invisible_duration=duration(60_000),
            long_polling_timeout=duration(5000),
        )
        parts = [
            ReceiveMessageResponse.FromString(one) for one in await self.messages("ReceiveMessage", asked)
        ]
        assert parts[0].status.code in (Code.OK, Code.MESSAGE_NOT_FOUND), parts[0]
        assert parts[-1].WhichOneof("content") == "delivery_timestamp"
        return [one.message for one in parts[1:-1]]


async def _sends_and_receives(consumer: Consumer, http: str, body: str) -> None:
    """Send one message over each protocol; receive both and acknowledge them."""
    asked = QueryRouteRequest(topic=TOPIC, endpoints=consumer.endpoints)
    route = (await consumer.ask("QueryRoute", asked)).message_queues
    assert {queue.broker.name for queue in route} == {"broker-a", "broker-b"}
    assert {queue.broker.endpoints.addresses[0].port for queue in route} == {consumer.port}
    assert (await consumer.settings()).subscription.receive_batch_size == 32
    await consumer.ask("Heartbeat", HeartbeatRequest(group=GROUP, client_type=ClientType.SIMPLE_CONSUMER))
    assigned = QueryAssignmentRequest(topic=TOPIC, group=GROUP, endpoints=consumer.endpoints)
    assert len((await consumer.ask("QueryAssignment", assigned)).assignments) == 2
    properties = SystemProperties(message_id=f"id of {body}", tag="t")
    message = Message(topic=TOPIC, body=body.encode(), system_properties=properties)
    sent = await consumer.ask("SendMessage", SendMessageRequest(messages=[message]))
    assert [entry.message_id for entry in sent.entries] == [f"id of {body}"]
    call("POST", f"{http}/v1/topics/orders/messages", {"messages": [{"body": f"{body} by HTTP"}]})
    given: list[Message] = []
    for _ in range(20):
        given += await consumer.receive(route[0])
        if len(given) == 2:
            break
    assert {one.body.decode() for one in given} == {body, f"{body} by HTTP"}
    entries = [
        AckMessageEntry(
            message_id=one.system_properties.message_id, receipt_handle=one.system_properties.receipt_handle
        )
        for one in given
    ]
    answer = await consumer.ask("AckMessage", AckMessageRequest(group=GROUP, topic=TOPIC, entries=entries))
    assert [entry.status.code for entry in answer.entries] == [Code.OK] * 2


async def test_a_client_sends_and_receives_plain_and_by_tls(new_system, gantry) -> None:
    system = new_system("--brokers", "2", "--gateway-workers", "2")
    http, host, port = system["http"], *system["grpc"].rsplit(":", 1)
    assert host == "127.0.0.1"
    call("PUT", f"{http}/v1/topics/orders", {"readQueues": 2, "writeQueues": 2})
    call("PUT", f"{http}/v1/groups/g1")
    for number, tls in enumerate((None, trusting())):
        async with contextlib.AsyncExitStack() as stack:
            client = await stack.enter_async_context(link.Client.connected(int(port), tls=tls))
            await _sends_and_receives(Consumer(client, int(port), f"c{number}"), http, f"hello {number}")
    ran = gantry("status", "--json", "--data", system["data"])
    assert json.loads(ran.stdout)["grpc"] == system["grpc"]
    lag = call("GET", f"{http}/v1/groups/g1/lag?topic=orders")
    assert lag["total"] == 0
    assert 'gateway_grpc_calls_total{code="20000",method="SendMessage"' in metrics_of(http)
