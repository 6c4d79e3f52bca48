"""Requests that are compressed, malformed or too large, and what the port holds of them."""

import gzip
import zlib

import pytest
from grpc_client import HEADERS, Client, Noted, framed, grpc_serving
from hypothesis import given
from hypothesis import strategies as st
from scripted_link import eventually

from gantry_h2.limits import Limits
from gantry_link.grpc.framing import Deframer, only_message
from gantry_link.grpc.limits import GrpcLimits
from gantry_link.grpc.status import GrpcError, GrpcStatus
from gantry_link.http2.limits import Http2Limits

pytestmark = pytest.mark.anyio
ECHO, CHAT = "/test.Test/Echo", "/test.Test/Chat"
GZIP = (("grpc-encoding", "gzip"),)
SMALL = GrpcLimits(message_bytes_max=100_000, unpacked_bytes_max=200_000)


def echo(_info, message):
    return message


async def chat(stream):
    while (message := await stream.receive()) is not None:
        await stream.send(message)


def serving(**options):
    return grpc_serving({ECHO: echo}, {CHAT: chat}, **options)


async def sent(client, path, content, more=()):
    stream = client.begin(path, more=more)
    await client.send_whole(stream, content)
    return await client.over(stream)


@pytest.mark.parametrize("path", [ECHO, CHAT])
async def test_compressed_messages_are_unpacked(path):
    async with serving() as (_, port), Client.connected(port) as client:
        packed = framed(gzip.compress(b"a" * 50_000), flag=1)
        assert (await sent(client, path, packed, GZIP)).messages == [b"a" * 50_000]
        assert (await sent(client, path, framed(b"plain"), GZIP)).messages == [b"plain"]
        accepted = client.answers[1].headers["grpc-accept-encoding"]
        assert accepted == "identity,gzip"


@pytest.mark.parametrize("path", [ECHO, CHAT])
@pytest.mark.parametrize(
    ("packed", "status"),
    [
        (gzip.compress(bytes(200_000)), GrpcStatus.OK),
        (gzip.compress(bytes(200_001)), GrpcStatus.RESOURCE_EXHAUSTED),
        (gzip.compress(bytes(50_000_000)), GrpcStatus.RESOURCE_EXHAUSTED),
        (gzip.compress(b"cut short")[:-3], GrpcStatus.INTERNAL),
        (gzip.compress(b"more") + b"behind", GrpcStatus.INTERNAL),
        (zlib.compress(b"not gzip"), GrpcStatus.INTERNAL),
        (b"", GrpcStatus.INTERNAL),
    ],
    ids=["largest", "too large", "a bomb", "cut", "more", "zlib", "empty"],
)
async def test_compressed_messages_are_bounded(path, packed, status):
    async with serving(limits=SMALL) as (_, port), Client.connected(port) as client:
        assert (await sent(client, path, framed(packed, flag=1), GZIP)).status == status
        assert (await client.call(ECHO, b"after")).messages == [b"after"]


@pytest.mark.parametrize("path", [ECHO, CHAT])
async def test_messages_over_the_limit_are_refused_by_their_first_bytes(path):
    async with serving(limits=SMALL) as (_, port), Client.connected(port) as client:
        assert (await sent(client, path, framed(bytes(100_000)))).messages == [bytes(100_000)]
        stream = client.begin(path)
        client.send(stream, framed(bytes(100_001))[:5])
        answer = await client.over(stream)
        assert answer.status == GrpcStatus.RESOURCE_EXHAUSTED
        assert answer.text == "a message of 100001 bytes: 100000 bytes are the limit"


@pytest.mark.parametrize("path", [ECHO, CHAT])
@pytest.mark.parametrize(
    "content",
    [b"\0\0\0", framed(b"abc")[:-1], framed(b"abc", flag=2), framed(b"abc", flag=1), framed(b"") + b"\0"],
    ids=["half a prefix", "half a message", "unknown flag", "compressed by nothing", "more behind"],
)
async def test_malformed_content_is_internal(path, content):
    async with serving() as (_, port), Client.connected(port) as client:
        assert (await sent(client, path, content)).status == GrpcStatus.INTERNAL
        assert (await client.call(ECHO, b"after")).messages == [b"after"]


async def test_a_unary_call_has_one_message():
    async with serving() as (_, port), Client.connected(port) as client:
        assert (await sent(client, ECHO, framed(b"1") + framed(b"2"))).status == GrpcStatus.INTERNAL
        assert (await client.over(client.begin(ECHO, is_end=True))).status == GrpcStatus.INTERNAL
        stream = client.begin(ECHO)
        client.send(stream, framed(b"1") + framed(b"2"))
        assert (await client.over(stream)).status == GrpcStatus.INTERNAL
        in_parts = client.begin(ECHO)
        for part in (b"\0\0", b"\0\0\4", b"ab", b"cd"):
            client.send(in_parts, part)
        client.send(in_parts, b"", is_end=True)
        assert (await client.over(in_parts)).messages == [b"abcd"]


def without(*names):
    return tuple(header for header in HEADERS if header[0] not in names)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ((*without("content-type"), ("content-type", "application/json")), "415"),
        ((*without("content-type"), ("content-type", "application/grpc-web")), "415"),
        (without("content-type"), "415"),
        ((*without("content-type"), ("content-type", "application/grpc+proto")), "200"),
        ((*without("content-type"), ("content-type", "application/grpc;charset=utf-8")), "200"),
        ((*without(":method"), (":method", "GET")), "405"),
    ],
)
async def test_what_is_no_grpc_gets_a_status_of_http(headers, status):
    async with serving() as (_, port), Client.connected(port) as client:
        headers = tuple(sorted(headers, key=lambda header: not header[0].startswith(":")))
        stream = client.begin(ECHO, headers=headers)
        client.send(stream, framed(b"x"), is_end=True)
        answer = await client.over(stream)
        assert answer.headers[":status"] == status
        assert (answer.messages == [b"x"]) == (status == "200")


async def test_a_proxy_without_trailers_and_unknown_compression_are_refused():
    async with serving() as (_, port), Client.connected(port) as client:
        answer = await client.over(client.begin(ECHO, headers=without("te"), is_end=True))
        assert answer.status == GrpcStatus.INTERNAL
        answer = await client.call(ECHO, b"", more=(("grpc-encoding", "snappy"),))
        assert answer.status == GrpcStatus.UNIMPLEMENTED
        assert answer.headers["grpc-accept-encoding"] == "identity,gzip"
        assert (await client.call(ECHO, b"x", more=(("grpc-encoding", "identity"),))).messages == [b"x"]


async def test_half_messages_count_and_are_released():
    budget = Noted()
    async with serving(budget=budget) as (_, port), Client.connected(port) as client:
        streams = [client.begin(path) for path in (ECHO, CHAT)]
        for stream in streams:
            client.send(stream, framed(bytes(20_000))[:-1])
        await eventually(lambda: sum(budget.held.values()) == 2 * 20_004)
        for stream in streams:
            client.send(stream, b"\0", is_end=True)
            await client.over(stream)
        assert sum(budget.held.values()) == 0
        stream = client.begin(ECHO)
        client.send(stream, framed(bytes(20_000))[:-1])
        await eventually(lambda: sum(budget.held.values()) == 20_004)
        client.cancel(stream)
        await eventually(lambda: sum(budget.held.values()) == 0)


async def test_the_budget_cuts_a_connection_that_hoards():
    budget = Noted()
    async with serving(budget=budget) as (server, port), Client.connected(port) as client:
        stream = client.begin(CHAT)
        client.send(stream, framed(bytes(20_000))[:-1])
        await eventually(lambda: budget.held)
        next(iter(budget.held)).cut("too much")
        await client.until(lambda: client.is_lost)
        assert budget.reasons == {"hoarding": 1}
        await eventually(lambda: server.connections == 0)
        assert not budget.held


async def test_a_message_that_does_not_arrive_whole_ends_its_call():
    limits = GrpcLimits(http2=Http2Limits(read_seconds=0.05, sweep_seconds=0.02))
    async with serving(limits=limits) as (_, port), Client.connected(port) as client:
        conversation = client.begin(CHAT)
        for path in (ECHO, CHAT):
            stream = client.begin(path)
            client.send(stream, b"\0\0\0\0\4abc")
            assert (await client.over(stream)).status == GrpcStatus.DEADLINE_EXCEEDED
        assert not client.answers[conversation].is_over  # it waits for nothing that has begun
        client.send(conversation, framed(b"late"), is_end=True)
        assert (await client.over(conversation)).messages == [b"late"]


async def test_more_calls_than_the_limit_are_refused():
    limits = GrpcLimits(http2=Http2Limits(connection=Limits(streams_max=2)))
    async with serving(limits=limits) as (_, port), Client.connected(port) as client:
        streams = [client.begin(CHAT) for _ in range(3)]
        assert (await client.over(streams[2])).reset == 7  # REFUSED_STREAM: safe to repeat
        client.send(streams[0], framed(b"x"), is_end=True)
        assert (await client.over(streams[0])).messages == [b"x"]


@given(st.lists(st.binary(max_size=30), max_size=5), st.integers(1, 12))
def test_a_deframer_returns_what_was_framed_however_it_is_cut(messages, step):
    deframer = Deframer(GrpcLimits(), b"")
    content = b"".join(map(framed, messages))
    found = []
    for at in range(0, len(content), step):
        deframer.feed(content[at : at + step])
        while (message := deframer.next()) is not None:
            found.append(message)
    assert found == messages
    assert len(deframer) == 0


@given(st.binary(max_size=12))
def test_the_fast_path_agrees_with_the_deframer(content):
    found = only_message(content, 1 << 20)
    deframer = Deframer(GrpcLimits(), b"")
    try:
        deframer.feed(content)
        expected = deframer.next()
    except GrpcError:
        expected = None
    if found is not None:
        assert found == expected
        assert len(deframer) == 0
    elif expected is not None:
        assert len(deframer) > 0


def test_the_fast_path_keeps_the_limit():
    assert only_message(framed(b"abc"), 3) == b"abc"
    assert only_message(framed(b"abc"), 2) is None
