import asyncio
import socket
import struct

import pytest
from scripted_link import BULK, ECHO, RawClient, answer_echo, eventually, serving

from gantry_link.limits import LinkLimits
from gantry_wire.frames.command import decode_command
from gantry_wire.frames.encode import encode_request, encode_response

pytestmark = pytest.mark.anyio


async def test_frames_cut_at_every_byte_are_answered():
    request = encode_request(ECHO, 5, {"name": "value"}, b"body")
    async with serving() as (_, port), RawClient.connected(port) as client:
        for cut in range(1, len(request)):
            client.send(request[:cut])
            await client.writer.drain()
            await asyncio.sleep(0)
            client.send(request[cut:])
            assert (await client.receive()).body == b"body"


async def test_pipelined_requests_are_handled_before_anything_is_written():
    turns = []

    def handler(peer, frame):
        turns.append(peer.buffered_bytes)
        answer_echo(peer, frame)

    async with serving(handler) as (_, port), RawClient.connected(port) as client:
        client.send(b"".join(encode_request(ECHO, n, None, b"%d" % n) for n in range(50)))
        answers = [await client.receive() for _ in range(50)]
    assert [(a.opaque, a.body) for a in answers] == [(n, b"%d" % n) for n in range(50)]
    assert turns[0] == 0
    assert turns == sorted(turns)  # no answer was written before the last request was handled
    assert turns[-1] > 0


async def test_a_stalled_reader_is_closed_and_others_are_served():
    limits = LinkLimits(output_bytes_max=1_000_000, output_pause_bytes=200_000)
    async with (
        serving(limits=limits) as (server, port),
        RawClient.connected(port) as stalled,
        RawClient.connected(port) as other,
    ):
        stalled.ask(1)
        await stalled.receive()
        victim = next(
            peer
            for peer in server.peers.values()
            if peer.remote[1] == stalled.writer.get_extra_info("sockname")[1]
        )
        stalled.reader._transport.pause_reading()
        sent = 0
        while not victim.is_closing:
            assert sent < 200_000_000, "the output grew without limit"
            assert victim.buffered_bytes <= limits.output_bytes_max
            victim.send(encode_response(0, 1, None, bytes(100_000)))
            sent += 100_000
            await asyncio.sleep(0)
            other.ask(sent, b"still here")
            assert (await other.receive()).body == b"still here"
        await eventually(lambda: len(server.peers) == 1)
    assert server.metrics.closed_stalled == 1


async def test_one_turn_cannot_gather_more_than_the_limit():
    limits = LinkLimits(output_bytes_max=100_000, output_pause_bytes=100_000)
    async with serving(limits=limits) as (server, port), RawClient.connected(port) as client:
        client.ask(1, b"200000", code=BULK)
        assert await client.is_closed()
    assert server.metrics.closed_stalled == 1


async def test_the_server_stops_reading_from_a_peer_that_does_not_read():
    handled = []

    def handler(peer, frame):
        handled.append(1)
        peer.send(encode_response(0, decode_command(frame).opaque, None, bytes(50_000)))

    limits = LinkLimits(output_pause_bytes=100_000, output_bytes_max=50_000_000)
    async with serving(handler, limits=limits) as (server, port), RawClient.connected(port) as client:
        client.reader._transport.pause_reading()
        request = encode_request(ECHO, 1, None, bytes(1000))
        client.send(request * 5000)
        before = -1
        while before != len(handled):
            before = len(handled)
            await asyncio.sleep(0.1)
        assert before < 2000  # the other requests wait in the sockets, not in our memory
        assert next(iter(server.peers.values())).buffered_bytes < limits.output_bytes_max
        client.reader._transport.resume_reading()
        for _ in range(5000):
            await client.receive()
        assert len(handled) == 5000


async def test_a_paused_peer_is_read_again_after_resume():
    async with serving() as (server, port), RawClient.connected(port) as client:
        client.ask(1)
        await client.receive()
        peer = next(iter(server.peers.values()))
        peer.pause_reading()
        peer.pause_reading()
        client.ask(2)
        with pytest.raises(TimeoutError):
            await client.receive(0.1)
        peer.resume_reading()
        assert (await client.receive()).opaque == 2


async def test_the_server_sends_requests_and_opaques_may_collide():
    asked = []

    def handler(peer, frame):
        command = decode_command(frame)
        if not command.is_response:
            asked.append(peer.request(307, {"consumerGroup": "g"}, timeout=60))
            peer.send(encode_response(0, command.opaque))

    async with serving(handler) as (_, port), RawClient.connected(port) as client:
        client.ask(1)  # our opaque 1 and the server's opaque 1 are two different calls
        push, answer = sorted([await client.receive(), await client.receive()], key=lambda c: c.is_response)
        assert (push.code, push.opaque, answer.opaque) == (307, 1, 1)
        client.send(encode_response(0, push.opaque, None, b"running info"))
        assert (await asked[0]).body == b"running info"


async def test_a_late_answer_of_a_client_reaches_the_handler_once():
    seen = []

    def handler(peer, frame):
        command = decode_command(frame)
        seen.append(command.is_response)
        if not command.is_response:
            peer.send(encode_response(0, command.opaque))

    async with serving(handler) as (_, port), RawClient.connected(port) as client:
        client.send(encode_response(0, 99))
        client.ask(1)
        assert (await client.receive()).opaque == 1
    assert seen == [True, False]


@pytest.mark.parametrize(("how", "by_client"), [("end", True), ("reset", False), ("here", False)])
async def test_only_the_end_of_the_stream_says_that_the_client_closed_it(how, by_client):
    async with serving() as (server, port), RawClient.connected(port) as client:
        client.ask(1)
        await client.receive()
        peer = next(iter(server.peers.values()))
        if how == "here":
            peer.close()
        else:
            if how == "reset":
                linger = struct.pack("ii", 1, 0)
                client.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            client.writer.transport.abort()
        await eventually(lambda: not server.peers)
        assert peer.closed_by_client is by_client
