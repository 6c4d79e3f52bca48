import asyncio
import itertools

import pytest
from scripted_link import BULK, ECHO, RAISE, SILENT, RawClient, answer_echo, eventually, serving

from gantry_link.connections.connection import connect
from gantry_link.limits import LinkLimits
from gantry_link.serving.server import RemotingServer
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import MissingField, RefusedRequest
from gantry_wire.frames.encode import encode_request, encode_response

pytestmark = pytest.mark.anyio


async def test_oneway_requests_get_no_answer():
    async with serving(on_failure=lambda *_: None) as (server, port), RawClient.connected(port) as client:
        client.ask(1, b"oneway body", oneway=True)
        client.ask(2, oneway=True, code=RAISE)
        client.ask(3)
        assert (await client.receive()).opaque == 3
        assert next(iter(server.peers.values())).attributes["last_oneway"] == b"oneway body"


@pytest.mark.parametrize(
    ("listen", "asked"),
    [
        ("::", "::1"),
        ("::", "127.0.0.1"),
        ("::1", "::1"),
        ("0.0.0.0", "127.0.0.1"),
        ("127.0.0.1", "127.0.0.1"),
    ],
)
async def test_a_server_listens_on_any_address_and_two_colons_mean_all(listen, asked):
    server = RemotingServer(answer_echo)
    port = await server.listen(listen, 0)
    try:
        connection = await connect(f"[{asked}]:{port}")
        answer = await connection.request(ECHO, {}, b"well")
        connection.close()
        assert answer.body == b"well"
        with pytest.raises(OSError, match="in use"):
            await RemotingServer(answer_echo).listen(listen, port)
    finally:
        await server.close()


async def test_a_failing_handler_answers_code_1_and_affects_no_other_request():
    failures = []
    async with (
        serving(on_failure=lambda _peer, error: failures.append(error)) as (server, port),
        RawClient.connected(port) as client,
    ):
        client.ask(1, code=RAISE)
        client.ask(2, b"well")
        failed, well = await client.receive(), await client.receive()
    assert failed.code == ResponseCode.SYSTEM_ERROR
    assert failed.opaque == 1
    assert failed.remark.startswith("ValueError: no luck, answer_echo(scripted_link.py:")
    assert well.body == b"well"
    assert server.metrics.failed_requests == 1
    assert len(failures) == 1


@pytest.mark.parametrize(
    ("error", "code", "remark"),
    [
        (RefusedRequest(ResponseCode.TOPIC_NOT_EXIST, "no topic", {"gantryCode": "X"}), 17, "no topic"),
        (MissingField("topic"), 1, "header field topic is missing or unreadable"),
    ],
)
async def test_a_refusal_of_the_handler_is_answered_with_its_code_and_remark(error, code, remark):
    def handler(_peer, _frame):
        raise error

    async with serving(handler) as (server, port), RawClient.connected(port) as client:
        client.ask(9)
        answer = await client.receive()
    assert (answer.code, answer.remark, answer.opaque) == (code, remark, 9)
    assert server.metrics.failed_requests == 0


async def test_a_wrong_length_closes_after_the_answers_to_the_whole_frames_before_it():
    async with (
        serving() as (server, port),
        RawClient.connected(port) as client,
        RawClient.connected(port) as other,
    ):
        client.send(encode_request(ECHO, 1, None, b"whole") + b"\x7f\xff\xff\xff" + bytes(40))
        assert (await client.receive()).body == b"whole"
        assert await client.receive() is None
        other.ask(2, b"unharmed")
        assert (await other.receive()).body == b"unharmed"
    assert server.metrics.closed_malformed == 1


@pytest.mark.parametrize(
    "garbage",
    [b"\x16\x03\x01\x02\x00" + bytes(20), b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r\n", b"GET / HTTP/1.1\r\n\r\n"],
)
async def test_connections_with_other_protocols_are_closed(garbage):
    async with serving() as (_, port), RawClient.connected(port) as client:
        client.send(garbage)
        assert await client.is_closed()


async def test_a_header_that_is_not_json_closes_the_connection():
    async with serving() as (server, port), RawClient.connected(port) as client:
        client.send(b"\x00\x00\x00\x08\x00\x00\x00\x04{no}")
        assert await client.is_closed()
        await eventually(lambda: not server.peers)
    assert server.metrics.closed_malformed == 1


async def test_an_idle_connection_is_closed_and_a_used_one_is_kept():
    limits = LinkLimits(idle_seconds=2, client_idle_seconds=1)
    async with (
        serving(limits=limits) as (server, port),
        RawClient.connected(port) as idle,
        RawClient.connected(port) as used,
    ):
        closing = asyncio.ensure_future(idle.is_closed())
        for n in itertools.count():
            used.ask(n)
            assert (await used.receive()).opaque == n
            if closing.done():
                break
            await asyncio.sleep(0.05)
        assert await closing
    assert server.metrics.closed_idle == 1


async def test_several_ports_share_a_handler_that_sees_the_port():
    async with serving() as (server, port):
        second = await server.listen("127.0.0.1", 0)
        for each in (port, second):
            async with RawClient.connected(each) as client:
                client.ask(1)
                assert (await client.receive()).ext["port"] == str(each)


async def test_connects_and_closes_are_reported_once():
    events = []
    async with serving(
        on_connect=lambda peer: events.append(("on", peer.id)),
        on_close=lambda peer: events.append(("off", peer.id)),
    ) as (server, port):
        async with RawClient.connected(port):
            await eventually(lambda: events)
            next(iter(server.peers.values())).on_close.append(
                lambda peer: events.append(("watched", peer.id))
            )
        await eventually(lambda: len(events) == 3)
    assert events == [("on", 1), ("watched", 1), ("off", 1)]


async def test_connections_are_limited():
    async with (
        serving(limits=LinkLimits(connections_max=1)) as (server, port),
        RawClient.connected(port) as first,
        RawClient.connected(port) as second,
    ):
        assert await second.is_closed()
        first.ask(1)
        assert (await first.receive()).opaque == 1
    assert server.metrics.refused == 1


async def test_close_sends_pending_answers_and_stops_accepting():
    server = RemotingServer(answer_echo)
    port = await server.listen("127.0.0.1", 0)
    async with RawClient.connected(port) as client:
        client.ask(1)
        await client.receive()
        next(iter(server.peers.values())).send(encode_response(0, 2, None, b"last answer"))
        await server.close(drain_seconds=60)
        assert (await client.receive()).body == b"last answer"
        assert await client.receive() is None
    with pytest.raises(OSError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_close_waits_for_a_stalled_reader_at_most_the_drain_time():
    server = RemotingServer(answer_echo)
    port = await server.listen("127.0.0.1", 0)
    async with RawClient.connected(port) as client:
        client.ask(1, b"30000000", code=BULK)
        await eventually(lambda: server.peers and next(iter(server.peers.values())).buffered_bytes)
        client.reader._transport.pause_reading()
        started = asyncio.get_running_loop().time()
        await server.close(drain_seconds=0.2)
        assert asyncio.get_running_loop().time() - started < 60  # it did not hang
    assert not server.peers


async def test_a_port_in_use_is_an_os_error():
    async with serving() as (_, port), serving() as (other, _):
        with pytest.raises(OSError):
            await other.listen("127.0.0.1", port)


async def test_a_request_may_stay_unanswered():
    async with serving() as (_, port), RawClient.connected(port) as client:
        client.ask(1, code=SILENT)
        client.ask(2)
        assert (await client.receive()).opaque == 2
