"""Transactions and recalls over gRPC with processes: a producer dies before its decision, and another one decides at another gateway."""

import asyncio
import importlib.util
import re
import sys
import time

import pytest
from checker_processes import ROOT, Client, until
from test_http_journey import Http

from gantry_wire.headers.messages import CheckTransactionHeader, RecallHeader
from gateway.grpc.proto import METHODS, SERVICE
from gateway.grpc.proto.common import Resource
from gateway.grpc.proto.enums import ClientType, Code, MessageType, TransactionResolution, TransactionSource
from gateway.grpc.proto.message import Message, SystemProperties
from gateway.grpc.proto.sending import EndTransactionRequest, RecallMessageRequest, SendMessageRequest
from gateway.grpc.proto.settings import Publishing, Settings
from gateway.grpc.proto.telemetry import TelemetryCommand
from gateway.grpc.proto.timestamp import timestamp

pytestmark = [pytest.mark.cluster, pytest.mark.anyio]
GRPC_PORT = re.compile(r"\bgrpc=[\d.]+:(\d+)")
ORDERS = Resource(name="orders")
SETTINGS = TelemetryCommand(
    settings=Settings(client_type=ClientType.PRODUCER, publishing=Publishing(topics=[ORDERS]))
)


def _load_client():
    """Import the client of the link's tests, which shares no code with the server."""
    spec = importlib.util.spec_from_file_location("link_grpc_client", ROOT / "libs/link/tests/grpc_client.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


link = _load_client()


class System(Http):
    """A second gateway beside the one of HTTP, both with gRPC, and a scheduler."""

    def __init__(self, directory):
        super().__init__(directory)
        self._start("scheduler", "port=0", "http_port=0", f"data_dir={directory}/scheduler", self.names)
        self.other = self._start("gateway", "port=0", "grpc_port=0", self.names)

    def grpc_ports(self):
        return [int(GRPC_PORT.search(one.lines[-1])[1]) for one in (self.gateway, self.other)]


@pytest.fixture
def system(tmp_path):
    system = System(tmp_path)
    yield system
    system.end()


class Producer:
    """A producer with a Telemetry stream on one connection."""

    def __init__(self, client, client_id):
        self.client, self.more = client, [("x-mq-client-id", client_id), ("x-mq-language", "PYTHON")]
        self.stream = 0

    async def connect(self):
        self.stream = self.client.begin(f"/{SERVICE}/Telemetry", more=self.more)
        self.client.send(self.stream, link.framed(SETTINGS.SerializeToString()))
        assert (await self.command(0)).status.code == Code.OK

    async def command(self, place):
        """Return a command of the server by its place on the stream."""
        answer = self.client.answers[self.stream]
        await self.client.until(lambda: len(answer.messages) > place)
        return TelemetryCommand.FromString(answer.messages[place])

    async def call(self, name, request):
        answer = await self.client.call(f"/{SERVICE}/{name}", request.SerializeToString(), more=self.more)
        assert answer.status == 0, answer.text
        return METHODS[name].response.FromString(answer.messages[0])

    async def send(self, text, message_id, **fields):
        system = SystemProperties(message_id=message_id, **fields)
        request = SendMessageRequest(messages=[Message(topic=ORDERS, body=text, system_properties=system)])
        (entry,) = (await self.call("SendMessage", request)).entries
        assert entry.status.code == Code.OK, entry
        return entry

    async def begin(self, text, message_id):
        return (await self.send(text, message_id, message_type=MessageType.TRANSACTION)).transaction_id

    async def recall(self, handle):
        request = RecallMessageRequest(topic=ORDERS, recall_handle=handle)
        answer = await self.call("RecallMessage", request)
        return answer.status.code, answer.message_id

    async def end(self, id_, resolution, source=TransactionSource.SOURCE_SERVER_CHECK):
        request = EndTransactionRequest(
            topic=ORDERS, transaction_id=id_, resolution=resolution, source=source
        )
        return (await self.call("EndTransaction", request)).status.code


def make_topic(system):
    until(
        lambda: system.ask("PUT", "/v1/topics/orders", {"readQueues": 1, "writeQueues": 1})[0] == 200,
        "the topic is there",
    )


async def test_a_remoting_producer_of_the_topics_group_decides_what_grpc_began(system):
    make_topic(system)
    async with link.Client.connected(system.grpc_ports()[0]) as connection:
        await Producer(connection, "dies").begin(b"one", "U1")
    remoting = Client(system.store.port)
    remoting.heartbeat("orders")
    asked = (await asyncio.to_thread(remoting.push)).read(CheckTransactionHeader)
    assert asked.transaction_id == "U1"
    remoting.end(
        8, offset=asked.tran_state_table_offset, position=asked.commit_log_offset, key="U1", group="orders",
        from_check=True,
    )  # fmt: skip
    until(lambda: system.bodies() == ["one"], "the message is delivered")
    remoting.close()


async def test_a_delayed_message_is_recalled_over_grpc_and_over_remoting(system):
    make_topic(system)
    async with link.Client.connected(system.grpc_ports()[0]) as connection:
        producer = Producer(connection, "c1")
        due = timestamp(int(time.time() * 1000) + 3_600_000)
        first, second = [
            await producer.send(b"later", message_id, delivery_timestamp=due) for message_id in ("D1", "D2")
        ]
        for _ in range(2):
            assert await producer.recall(first.recall_handle) == (Code.OK, "D1")
        remoting = Client(system.store.port)
        answer = remoting.ask(370, RecallHeader(topic="orders", recall_handle=second.recall_handle))
        assert (answer.code, answer.fields["msgId"]) == (0, "D2")
        remoting.close()
        until(lambda: not system.ask("GET", "/v1/schedules")[1]["schedules"], "nothing waits")
        await producer.send(b"now", "D3", delivery_timestamp=timestamp(1_000))
    until(lambda: system.bodies() == ["now"], "a message of the past is delivered")


async def test_another_producer_decides_what_a_dead_one_began(system):
    make_topic(system)
    first_port, other_port = system.grpc_ports()
    async with link.Client.connected(first_port) as connection:
        producer = Producer(connection, "dies")
        await producer.connect()
        lost = await producer.begin(b"one", "U1")
        rolled_back = await producer.begin(b"two", "U2")
        assert await producer.end(rolled_back, TransactionResolution.ROLLBACK) == Code.OK
    assert lost == "broker-a.U1"
    assert system.bodies() == []
    async with link.Client.connected(other_port) as connection:
        producer = Producer(connection, "lives")
        await producer.connect()
        asked = (await producer.command(1)).recover_orphaned_transaction_command
        assert (asked.transaction_id, asked.message.body) == (lost, b"one")
        assert await producer.end(lost, TransactionResolution.TRANSACTION_RESOLUTION_UNSPECIFIED) == Code.OK
        again = (await producer.command(2)).recover_orphaned_transaction_command  # the next check
        assert again.transaction_id == lost
        for _ in range(2):
            assert await producer.end(lost, TransactionResolution.COMMIT) == Code.OK
        assert await producer.end(lost, TransactionResolution.ROLLBACK) == Code.PRECONDITION_FAILED
        assert await producer.end(rolled_back, TransactionResolution.COMMIT) == Code.PRECONDITION_FAILED
        assert system.bodies() == ["one"]
        assert await asyncio.to_thread(system.other.stop) == 0, "with a producer that waits for checks"
    assert "error" not in system.other.text
