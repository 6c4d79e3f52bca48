"""The Telemetry stream: answers to settings, refusals that do not end it, and commands to clients."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from gateway_grpc_peers import ScriptedStream, Steady, info_of

from gantry_chassis.metrics import Metrics
from gateway.grpc.calls import Calls, Refused
from gateway.grpc.clients import TOPICS_MAX, Clients
from gateway.grpc.codes import status
from gateway.grpc.proto.common import Resource, SubscriptionEntry
from gateway.grpc.proto.enums import ClientType, Code
from gateway.grpc.proto.message import Message
from gateway.grpc.proto.settings import Publishing, Settings, Subscription
from gateway.grpc.proto.telemetry import (
    TelemetryCommand,
    ThreadStackTrace,
    VerifyMessageCommand,
    VerifyMessageResult,
)
from gateway.grpc.telemetry import telemetry as module
from gateway.grpc.telemetry.group_settings import KnownGroups
from gateway.grpc.telemetry.telemetry import Commands, Telemetry
from gateway.http.metrics import CallCounts
from gateway.ports.stores import GroupSettings

pytestmark = pytest.mark.anyio
PRODUCER = TelemetryCommand(
    settings=Settings(
        client_type=ClientType.PRODUCER, publishing=Publishing(topics=[Resource(name="orders")])
    )
)
CONSUMER = TelemetryCommand(
    settings=Settings(
        client_type=ClientType.PUSH_CONSUMER,
        subscription=Subscription(
            group=Resource(name="g1"), subscriptions=[SubscriptionEntry(topic=Resource(name="orders"))]
        ),
    )
)


class OneGroup(KnownGroups):
    """The group g1, which has an order."""

    def __init__(self):
        pass

    async def get(self, group):
        return GroupSettings(group, True, True, 4, 1, "", "shardingKey") if group == "g1" else None


class Served:
    """Telemetry of a gateway, with its clients."""

    def __init__(self):
        self.clients, self.refusal = Clients(Steady()), None
        self.commands = Commands(self.clients)
        counts = CallCounts(Metrics(), lambda: 0.0, "gateway_grpc_call", "gRPC", ("method", "code"))
        calls = Calls(self.admit, lambda: None, self.clients, None, counts)
        self.telemetry = Telemetry(calls, self.admit, self.clients, OneGroup(), self.commands)

    def admit(self, method, caller, request):
        if self.refusal is not None:
            raise self.refusal

    @contextlib.asynccontextmanager
    async def stream(self, **headers):
        stream = ScriptedStream(info_of(**headers))
        serving = asyncio.ensure_future(self.telemetry.serve(stream))
        try:
            yield stream
        finally:
            stream.write(None)
            await serving


@pytest.fixture
async def served(anyio_backend):
    return Served()


async def test_settings_are_answered_each_time_with_a_status_and_settings(served):
    async with served.stream() as stream:
        for _ in range(2):
            stream.write(PRODUCER)
            answer = await stream.answer()
            assert answer.status.code == Code.OK
            assert answer.settings.publishing.max_body_size > 0
        assert [client.id for client in served.clients.producers_of("orders")] == ["c1"]
    assert not served.clients.is_connected("c1")


async def test_a_consumers_settings_are_its_groups(served):
    async with served.stream() as stream:
        stream.write(CONSUMER)
        answer = (await stream.answer()).settings
        assert answer.subscription.fifo
        assert answer.backoff_policy.max_attempts == 5
        client = served.clients.get("c1")
        assert (client.group, client.topics, client.kind) == ("g1", {"orders"}, ClientType.PUSH_CONSUMER)


async def test_names_have_the_namespace_of_the_call(served):
    async with served.stream(x_mq_namespace="shop") as stream:
        stream.write(PRODUCER)
        await stream.answer()
        assert served.clients.producers_of("shop%orders")


async def test_a_refusal_is_a_status_and_the_stream_stays_open(served):
    async with served.stream() as stream:
        served.refusal = Refused(Code.UNAUTHORIZED, "who are you")
        stream.write(PRODUCER)
        answer = await stream.answer()
        assert (answer.status.code, answer.WhichOneof("command")) == (Code.UNAUTHORIZED, None)
        assert not served.clients.is_connected("c1")
        served.refusal = None
        stream.write(PRODUCER)
        assert (await stream.answer()).status.code == Code.OK


@pytest.mark.parametrize(
    ("written", "code"),
    [
        (b"\xff\xff", Code.BAD_REQUEST),
        (TelemetryCommand(settings=Settings()), Code.UNRECOGNIZED_CLIENT_TYPE),
        pytest.param(
            TelemetryCommand(
                settings=Settings(
                    client_type=ClientType.PRODUCER, subscription=CONSUMER.settings.subscription
                )
            ),
            Code.UNRECOGNIZED_CLIENT_TYPE,
            id="a producer with a consumer's rights",
        ),
        (
            TelemetryCommand(
                settings=Settings(publishing=Publishing(topics=[Resource(name="t")] * (TOPICS_MAX + 1)))
            ),
            Code.BAD_REQUEST,
        ),
        (
            TelemetryCommand(
                settings=Settings(
                    publishing=Publishing(topics=[Resource(name="x" * module.COMMAND_BYTES_MAX)])
                )
            ),
            Code.PAYLOAD_TOO_LARGE,
        ),
    ],
)
async def test_what_cannot_be_served_is_refused_without_an_end(served, written, code):
    async with served.stream() as stream:
        stream.write(written)
        assert (await stream.answer()).status.code == code
        stream.write(PRODUCER)
        assert (await stream.answer()).status.code == Code.OK


async def test_a_stream_without_a_client_id_is_refused(served):
    async with served.stream(client_id="") as stream:
        stream.write(PRODUCER)
        assert (await stream.answer()).status.code == Code.CLIENT_ID_REQUIRED


async def test_the_replacement_of_a_stream_outlives_the_old_one(served):
    async with served.stream() as new:
        async with served.stream() as old:
            old.write(PRODUCER)
            await old.answer()
            new.write(PRODUCER)
            await new.answer()
        assert served.clients.push("c1", TelemetryCommand())
        await new.answer()


async def test_a_client_is_asked_for_its_stacks(served):
    async with served.stream() as stream:
        stream.write(CONSUMER)
        await stream.answer()
        asking = asyncio.ensure_future(served.commands.stack_trace("c1"))
        nonce = (await stream.answer()).print_thread_stack_trace_command.nonce
        for answered in ("other", nonce):
            trace = ThreadStackTrace(nonce=answered, thread_stack_trace=f"stack {answered}")
            stream.write(TelemetryCommand(status=status(Code.OK), thread_stack_trace=trace))
        assert await asking == f"stack {nonce}"


async def test_a_failed_consumption_has_the_clients_code(served):
    async with served.stream() as stream:
        stream.write(CONSUMER)
        await stream.answer()
        asking = asyncio.ensure_future(served.commands.verify("c1", Message(body=b"x")))
        asked = (await stream.answer()).verify_message_command
        assert asked.message.body == b"x"
        failed = status(Code.FAILED_TO_CONSUME_MESSAGE, "no")
        stream.write(
            TelemetryCommand(status=failed, verify_message_result=VerifyMessageResult(nonce=asked.nonce))
        )
        with pytest.raises(Refused) as refused:
            await asking
        assert refused.value.code == Code.FAILED_TO_CONSUME_MESSAGE


async def test_a_client_that_does_not_answer_or_is_not_there(served, monkeypatch):
    monkeypatch.setattr(module, "ANSWER_SECONDS", 0.01)
    with pytest.raises(Refused) as refused:
        await served.commands.stack_trace("nobody")
    assert refused.value.code == Code.NOT_FOUND
    async with served.stream() as stream:
        stream.write(CONSUMER)
        await stream.answer()
        with pytest.raises(Refused) as refused:
            await served.commands.stack_trace("c1")
        assert refused.value.code == Code.REQUEST_TIMEOUT


async def test_a_producer_without_its_rights_is_asked_no_more(served):
    async with served.stream() as stream:
        stream.write(PRODUCER)
        await stream.answer()
        served.refusal = Refused(Code.FORBIDDEN, "not any more")
        stream.write(PRODUCER)
        await stream.answer()
        assert served.clients.producers_of("orders") == []


async def test_nothing_is_read_from_a_client_that_does_not_read(served):
    async with served.stream() as stream:
        stream.reads = asyncio.Event()
        for _ in range(100):
            stream.write(PRODUCER)
        while not served.clients.is_connected("c1"):
            await asyncio.sleep(0)
        for _ in range(10):
            await asyncio.sleep(0)
        assert stream.unread > 90
        stream.reads.set()
        for _ in range(100):
            assert (await stream.answer()).status.code == Code.OK


async def test_a_client_that_does_not_read_is_asked_little(served):
    async with served.stream() as stream:
        stream.write(PRODUCER)
        await stream.answer()
        stream.reads = asyncio.Event()
        check = TelemetryCommand(
            verify_message_command=VerifyMessageCommand(message=Message(body=bytes(4 << 20)))
        )
        taken = [served.clients.push("c1", check) for _ in range(10)]
        assert taken == [True] * 3 + [False] * 7
        stream.reads.set()
        for _ in range(3):
            await stream.answer()
        assert served.clients.push("c1", check)
