import asyncio
import time

import pytest
from scripted_link import ECHO, PUSH, RAISE, SILENT, eventually, serving

from gantry_link.connections import connection as connection_module
from gantry_link.connections.connection import connect, split_address
from gantry_link.errors import ConnectionBusy, ConnectionLost, NotConnected, RequestTimedOut
from gantry_link.limits import LinkLimits
from gantry_wire.frames.command import decode_command
from gantry_wire.frames.encode import encode_request, encode_response
from gantry_wire.frames.frame_stream import FrameDecoder

pytestmark = pytest.mark.anyio


async def to(port, **options):
    return await connect(f"127.0.0.1:{port}", **options)


async def test_calls_of_one_turn_leave_in_one_write_and_get_their_answers():
    reads = []

    class Counting(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport, self.decoder = transport, FrameDecoder()

        def data_received(self, data):
            frames = self.decoder.receive(data)
            reads.append(len(frames))
            for frame in reversed(frames):
                command = decode_command(frame)
                self.transport.write(encode_response(0, command.opaque, None, command.body))

    loop = asyncio.get_running_loop()
    server = await loop.create_server(Counting, "127.0.0.1", 0)
    connection = await to(server.sockets[0].getsockname()[1])
    calls = [connection.request(ECHO, None, b"%d" % n) for n in range(40)]
    answers = await asyncio.gather(*calls)
    assert [a.body for a in answers] == [b"%d" % n for n in range(40)]
    assert reads == [40]
    connection.close()
    server.close()
    await asyncio.sleep(0)


async def test_an_error_code_is_an_answer():
    async with serving(on_failure=lambda *_: None) as (_, port):
        connection = await to(port)
        answer = await connection.request(RAISE)
        assert answer.code == 1
        connection.close()


async def test_oneway_requests_arrive_in_order_with_calls():
    async with serving() as (server, port):
        connection = await to(port)
        connection.oneway(ECHO, None, b"oneway body")
        await connection.request(ECHO)
        assert next(iter(server.peers.values())).attributes["last_oneway"] == b"oneway body"
        assert connection.open_calls == 0
        connection.close()


async def test_a_call_without_an_answer_times_out_as_sent():
    async with serving() as (_, port):
        connection = await to(port)
        started = time.monotonic()
        with pytest.raises(RequestTimedOut) as error:
            await connection.request(SILENT, timeout=0.1)
        assert error.value.sent
        assert time.monotonic() - started >= 0.09
        assert (await connection.request(ECHO, None, b"next")).body == b"next"
        connection.close()


async def test_a_lost_connection_reports_what_was_sent_and_what_was_not():
    async with serving() as (server, port):
        connection = await to(port)
        sent = connection.request(SILENT)
        await connection.request(ECHO)
        unsent = connection.request(SILENT)  # waits for the end of this turn
        connection._end("was lost in the same turn")
        for call, was_sent in ((sent, True), (unsent, False)):
            with pytest.raises(ConnectionLost) as error:
                await call
            assert error.value.sent is was_sent
        assert not connection.is_open
        with pytest.raises(NotConnected):
            connection.request(ECHO)
        connection._transport.abort()
        await eventually(lambda: not server.peers)


async def test_calls_end_when_the_server_closes():
    async with serving() as (server, port):
        lost = []
        connection = await to(port, on_lost=lost.append)
        call = connection.request(SILENT)
        await connection.request(ECHO)
        next(iter(server.peers.values())).abort()
        with pytest.raises(ConnectionLost) as error:
            await call
        assert error.value.sent
        assert lost == [connection]


async def test_a_server_that_does_not_read_makes_calls_fail_unsent_and_withdraws_them():
    async with serving() as (server, port):
        connection = await to(port, limits=LinkLimits(output_pause_bytes=100_000, output_bytes_max=3_000_000))
        await connection.request(ECHO)
        peer = next(iter(server.peers.values()))
        peer.pause_reading()
        calls = []
        while not connection._paused:
            calls.append(connection.request(ECHO, None, bytes(50_000), timeout=0.2))
            await asyncio.sleep(0)
        calls += [connection.request(ECHO, None, b"held back", timeout=0.2) for _ in range(3)]
        while connection._unsent_bytes < 2_950_000:
            connection.oneway(ECHO, None, bytes(50_000))
        with pytest.raises(ConnectionBusy):
            connection.oneway(ECHO, None, bytes(50_000))
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert [o.sent for o in outcomes[-3:]] == [False] * 3
        assert outcomes[0].sent
        peer.resume_reading()
        assert (await connection.request(ECHO, None, b"again")).body == b"again"
        connection.close()


async def test_pushed_requests_are_handled_and_unknown_ones_refused():
    async def ask(peer):
        return await peer.request(PUSH, {"a": "b"}, timeout=60)

    async with serving() as (server, port):
        plain = await to(port)
        await plain.request(ECHO)
        refused = await ask(next(iter(server.peers.values())))
        assert (refused.code, refused.remark) == (3, f" request type {PUSH} not supported")
        plain.close()
        await eventually(lambda: not server.peers)
        handling = await to(
            port, on_push=lambda c, p: c.send(encode_response(0, p.opaque, None, p.ext["a"].encode()))
        )
        await handling.request(ECHO)
        assert (await ask(next(iter(server.peers.values())))).body == b"b"
        handling.close()


async def test_an_invalid_frame_from_the_server_ends_the_connection():
    def garble(peer, _frame):
        peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with serving(garble) as (_, port):
        connection = await to(port)
        with pytest.raises(ConnectionLost, match="sent an invalid frame"):
            await connection.request(ECHO)


async def test_a_connection_to_a_silent_server_is_closed(monkeypatch):
    monkeypatch.setattr(connection_module, "SILENT_SECONDS", 0.3)
    async with serving() as (_, port):
        connection = await to(port)
        for _ in range(10):
            if not connection.is_open:
                break
            with pytest.raises((RequestTimedOut, ConnectionLost)):
                await connection.request(SILENT, timeout=0.1)
        assert not connection.is_open


async def test_a_connection_is_given_up_with_a_reset(monkeypatch):
    """A server frees the queue locks of a client whose connection ends in order: its process may have ended."""
    monkeypatch.setattr(connection_module, "SILENT_SECONDS", 0.1)
    ends: list[Exception | None] = []

    class Silent(asyncio.Protocol):
        def connection_lost(self, exc: Exception | None) -> None:
            ends.append(exc)

    server = await asyncio.get_running_loop().create_server(Silent, "127.0.0.1", 0)
    connection = await to(server.sockets[0].getsockname()[1])
    for _ in range(10):
        if not connection.is_open:
            break
        with pytest.raises((RequestTimedOut, ConnectionLost)):
            await connection.request(SILENT, timeout=0.1)
    await eventually(lambda: ends)
    server.close()
    assert isinstance(ends[0], ConnectionResetError)


async def test_a_connection_with_some_answers_is_not_closed(monkeypatch):
    monkeypatch.setattr(connection_module, "SILENT_SECONDS", 1.0)
    async with serving() as (_, port):
        connection = await to(port)
        for _ in range(12):  # together they are silent for longer
            slow = connection.request(SILENT, timeout=0.1)
            await asyncio.sleep(0.02)
            await connection.request(ECHO)
            with pytest.raises(RequestTimedOut):
                await slow
        assert connection.is_open
        connection.close()


async def test_a_closed_port_is_not_connected_at_once():
    async with serving() as (_, port):
        pass
    with pytest.raises(NotConnected, match="cannot connect to") as error:
        await to(port)
    assert not error.value.sent


@pytest.mark.parametrize(
    ("address", "parts"),
    [("127.0.0.1:9876", ("127.0.0.1", 9876)), ("[::1]:10911", ("::1", 10911)), ("ns:1", ("ns", 1))],
)
def test_addresses_are_host_and_port(address, parts):
    assert split_address(address) == parts


@pytest.mark.parametrize("address", ["", "host", "host:", "host:0", "host:70000", "host:x", "host:-1"])
def test_an_invalid_address_is_refused(address):
    with pytest.raises(NotConnected, match="write host:port"):
        split_address(address)


async def test_close_sends_queued_requests():
    async with serving() as (server, port):
        connection = await to(port)
        await connection.request(ECHO)
        peer = next(iter(server.peers.values()))
        connection.oneway(ECHO, None, b"goodbye")
        connection.close()
        await eventually(lambda: peer.attributes.get("last_oneway") == b"goodbye")


def test_request_frames_decode_to_the_request():
    frame = FrameDecoder().receive(encode_request(ECHO, 3, {"k": "v"}, b"x"))[0]
    assert decode_command(frame).ext == {"k": "v"}


async def test_an_invalid_host_name_is_not_connected():
    with pytest.raises(NotConnected):
        await connect("a..b:10911")


async def test_calls_sent_together_leave_in_one_write_or_not_at_all():
    async with serving() as (_, port):
        connection = await to(port, limits=LinkLimits(calls_max=3))
        loop = asyncio.get_running_loop()

        def together(count):
            answers = {opaque: loop.create_future() for opaque in connection.next_opaques(count)}
            frames = [encode_request(ECHO, opaque, None, b"%d" % opaque) for opaque in answers]
            now = loop.time()
            calls = {opaque: (answer, now + 60, now) for opaque, answer in answers.items()}
            return answers, connection.ask_together(calls, now + 60, b"".join(frames))

        answers, is_asked = together(3)
        assert is_asked
        assert not together(1)[1]  # the limit of open calls is reached
        for opaque, answer in answers.items():
            assert (await answer).body == b"%d" % opaque
        connection.pause_writing()
        assert not together(1)[1]
        assert connection.open_calls == 0
        connection.resume_writing()
        answers, is_asked = together(1)
        assert is_asked
        await asyncio.gather(*answers.values())
        connection.close()
        assert not together(1)[1]
