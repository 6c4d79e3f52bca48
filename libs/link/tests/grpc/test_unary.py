"""Calls with one message in each direction."""

import asyncio

import pytest
from grpc_client import Client, grpc_serving

from gantry_link.grpc.status import GrpcError, GrpcStatus

pytestmark = pytest.mark.anyio
ECHO = "/test.Test/Echo"


def echo(_info, message):
    return message


async def test_a_call_is_answered():
    async with grpc_serving({ECHO: echo}) as (_, port), Client.connected(port) as client:
        answer = await client.call(ECHO, b"hello")
        assert answer.messages == [b"hello"]
        assert answer.headers[":status"] == "200"
        assert answer.headers["content-type"] == "application/grpc"
        assert answer.trailers == {"grpc-status": "0"}


async def test_a_coroutine_and_a_future_are_awaited():
    futures = []

    async def slow(_info, message):
        await asyncio.sleep(0)
        return message + b" slow"

    def later(_info, _message):
        futures.append(asyncio.get_running_loop().create_future())
        return futures[-1]

    async with grpc_serving({ECHO: slow, "/t/Later": later}) as (_, port), Client.connected(port) as client:
        assert (await client.call(ECHO, b"a")).messages == [b"a slow"]
        stream = client.start("/t/Later", b"")
        assert (await client.call(ECHO, b"b")).messages == [b"b slow"]
        assert not client.answers[stream].is_over
        futures[0].set_result(b"done")
        assert (await client.over(stream)).messages == [b"done"]


async def test_what_a_handler_knows_of_its_call():
    infos = []

    def note(info, _message):
        infos.append(info)
        return b""

    async with grpc_serving({ECHO: note}) as (_, port), Client.connected(port) as client:
        before = asyncio.get_running_loop().time()
        more = (("x-mq-client-id", "one"), ("x-two", "a"), ("x-two", "b"), ("grpc-timeout", "30S"))
        await client.call(ECHO, b"", more=more)
        await client.call(ECHO, b"")
        info, other = infos
        assert info.headers[b"x-mq-client-id"] == b"one"
        assert info.headers[b"x-two"] == b"b"
        assert before + 30 <= info.deadline <= asyncio.get_running_loop().time() + 30
        assert (info.is_secure, info.user) == (False, "")
        assert info.peer == "{}:{}".format(*client.transport.get_extra_info("sockname"))
        assert other.deadline is None


async def test_errors_have_their_status_and_text():
    def fail(_info, message):
        if message == b"own":
            raise GrpcError(GrpcStatus.NOT_FOUND, "50 % of 'ü'\nare lost")
        raise KeyError("a secret")

    async def fail_later(info, message):
        return fail(info, message)

    failures = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: failures.append(context))
    async with (
        grpc_serving({"/t/A": fail, "/t/B": fail_later}) as (_, port),
        Client.connected(port) as client,
    ):
        for path in ("/t/A", "/t/B"):
            own = await client.call(path, b"own")
            assert (own.status, own.text) == (5, "50 %25 of '%C3%BC'%0Aare lost")
            assert own.headers["content-type"] == "application/grpc"
            assert not own.messages
            other = await client.call(path, b"other")
            assert other.status == GrpcStatus.INTERNAL
            assert "secret" not in other.text
    assert [repr(context["exception"]) for context in failures] == ["KeyError('a secret')"] * 2
    assert "/t/A" in failures[0]["message"]


async def test_what_is_no_message_is_internal():
    failures = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: failures.append(context))

    async def nothing(_info, _message):
        return None

    async with (
        grpc_serving({ECHO: lambda *_: 7, "/t/N": nothing}) as (_, port),
        Client.connected(port) as client,
    ):
        assert (await client.call(ECHO, b"")).status == GrpcStatus.INTERNAL
        assert (await client.call("/t/N", b"")).status == GrpcStatus.INTERNAL
    assert len(failures) == 2


async def test_unknown_methods_are_unimplemented():
    async with grpc_serving({ECHO: echo}) as (_, port), Client.connected(port) as client:
        answer = await client.call("/test.Test/Other", b"")
        assert (answer.status, answer.text) == (GrpcStatus.UNIMPLEMENTED, "no method /test.Test/Other")
        assert (await client.call(ECHO, b"after")).messages == [b"after"]


async def test_a_deadline_that_passes_ends_the_call_and_its_work():
    cancelled = asyncio.Event()

    async def slow(_info, _message):
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    futures = []

    def later(_info, _message):
        futures.append(asyncio.get_running_loop().create_future())
        return futures[-1]

    async with grpc_serving({ECHO: slow, "/t/L": later}) as (server, port), Client.connected(port) as client:
        for path in (ECHO, "/t/L"):
            answer = await client.call(path, b"", more=(("grpc-timeout", "30m"),))
            assert answer.status == GrpcStatus.DEADLINE_EXCEEDED
        await cancelled.wait()
        assert futures[0].cancelled()
        assert not server.deadlines._steps


@pytest.mark.parametrize("given", ["99999999H", "1n"])
async def test_the_longest_and_the_shortest_timeout_are_accepted(given):
    async with grpc_serving({ECHO: echo}) as (_, port), Client.connected(port) as client:
        assert (await client.call(ECHO, b"x", more=(("grpc-timeout", given),))).messages == [b"x"]


@pytest.mark.parametrize("given", ["1", "S", "-1S", "123456789S", "1.5S", "1s"])
async def test_malformed_timeouts_are_refused(given):
    async with grpc_serving({ECHO: echo}) as (_, port), Client.connected(port) as client:
        answer = await client.call(ECHO, b"x", more=(("grpc-timeout", given),))
        assert (answer.status, answer.text) == (GrpcStatus.INTERNAL, "grpc-timeout is malformed")


async def test_a_call_that_its_client_cancels_is_cancelled():
    began, cancelled = asyncio.Event(), asyncio.Event()

    async def slow(_info, _message):
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with grpc_serving({ECHO: slow}) as (_, port), Client.connected(port) as client:
        stream = client.start(ECHO, b"")
        await began.wait()
        client.cancel(stream)
        await cancelled.wait()


async def test_calls_end_with_their_connection():
    began, cancelled = asyncio.Event(), asyncio.Event()

    async def slow(_info, _message):
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with grpc_serving({ECHO: slow}) as (server, port):
        async with Client.connected(port) as client:
            client.start(ECHO, b"")
            await began.wait()
        await cancelled.wait()
        assert server.connections == 0
