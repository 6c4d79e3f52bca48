"""Limits hostile peers: half frames, unread answers, endless frames, descriptors. Other peers are still served."""

import asyncio
import contextlib
import os
import random
import socket

import pytest
from scripted_link import BULK, ECHO, RawClient, eventually, serving

from gantry_chassis.peers.budget import Budget, BudgetLimits
from gantry_link.limits import FREE_BYTES, LinkLimits
from gantry_wire.frames.encode import encode_request

pytestmark = pytest.mark.anyio

LIMIT = 3_000_000


class Watched(Budget):
    """A budget that records its peak and its refusals."""

    def __init__(self, **limits):
        self.refusals_seen = []
        self.most = 0
        super().__init__(
            BudgetLimits(**limits), lambda peer, message: self.refusals_seen.append((peer, message))
        )

    def change(self, account, size):
        super().change(account, size)
        self.most = max(self.most, self.held)


@contextlib.asynccontextmanager
async def connected_clients(port, count, data):
    """Open this many connections that send `data` and read nothing."""
    writers = []
    for _ in range(count):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        _, writer = await asyncio.open_connection(sock=sock)
        writer.transport.pause_reading()
        writer.write(data)
        writers.append(writer)
    try:
        yield [writer.get_extra_info("sockname")[1] for writer in writers]
    finally:
        for writer in writers:
            writer.transport.abort()


async def test_half_frames_are_limited_the_oldest_are_closed_and_valid_requests_pass():
    budget = Watched(address_bytes_max=LIMIT)
    half = encode_request(ECHO, 1, None, bytes(1_000_000))[:-100]
    async with serving(budget=budget) as (server, port), RawClient.connected(port) as honest:
        async with connected_clients(port, 12, half) as ports:
            for number in range(20):
                honest.ask(number, bytes(900_000))
                answer = await honest.receive()
                assert (answer.opaque, len(answer.body)) == (number, 900_000)
            await eventually(lambda: server.metrics.closed_hoarding >= 9)
            assert budget.most <= LIMIT + len(half)  # the budget checks after it counts
            peer, message = budget.refusals_seen[0]
            assert peer in {f"127.0.0.1:{one}" for one in ports}
            assert f"at most {LIMIT} may be" in message
            assert message.endswith("of a half request")
        await eventually(lambda: budget.held == 0)
        assert budget.refusals["hoarding"] == server.metrics.closed_hoarding


async def test_unread_answers_are_limited_and_another_reader_is_served():
    budget = Watched(address_bytes_max=4 * LIMIT)
    asks = b"".join(encode_request(BULK, n, None, b"1000000") for n in range(30))
    async with serving(budget=budget) as (server, port), RawClient.connected(port) as honest:
        async with connected_clients(port, 12, asks):
            for number in range(40):
                honest.ask(number, b"1000000", code=BULK)
                answer = await honest.receive()
                assert (answer.opaque, len(answer.body)) == (number, 1_000_000)
            await eventually(lambda: server.metrics.closed_stalled >= 6)
            assert budget.most <= 4 * LIMIT + 1_100_000
            assert "of answers it does not read" in budget.refusals_seen[0][1]
        await eventually(lambda: budget.held == 0)


async def test_many_small_unread_answers_are_counted():
    budget = Watched(address_bytes_max=400_000)
    limits = LinkLimits(output_pause_bytes=50_000_000)
    async with serving(budget=budget, limits=limits) as (server, port):
        async with connected_clients(port, 1, b""):
            await eventually(lambda: server.peers)
            (peer,) = server.peers.values()
            for _ in range(100_000):
                if peer.is_closing:
                    break
                peer.send(bytes(1_000))
                await asyncio.sleep(0)
            assert peer.is_closing
            assert server.metrics.closed_stalled == 1
        await eventually(lambda: budget.held == 0)


async def test_answers_read_late_are_released():
    budget = Watched()
    async with serving(budget=budget) as (server, port), RawClient.connected(port) as slow:
        slow.reader._transport.pause_reading()
        slow.ask(1, b"15000000", code=BULK)
        await eventually(lambda: budget.held > 1_000_000)
        await asyncio.sleep(0.05)
        slow.reader._transport.resume_reading()
        assert len((await slow.receive()).body) == 15_000_000
        await eventually(lambda: budget.held == 0)
        assert not next(iter(server.peers.values())).is_closing
    assert budget.refusals_seen == []


@pytest.mark.parametrize("seed", range(4))
async def test_only_the_incomplete_frame_counts_however_the_stream_is_cut(seed):
    budget, rng = Watched(), random.Random(seed)
    sizes = [rng.choice([0, 100, FREE_BYTES, 50_000, 300_000]) for _ in range(12)]
    stream = b"".join(encode_request(ECHO, n, None, bytes(size)) for n, size in enumerate(sizes))
    async with serving(budget=budget) as (server, port), RawClient.connected(port) as client:

        async def receive_all():
            return [await client.receive() for _ in sizes]

        receiving = asyncio.ensure_future(receive_all())  # answers that wait for their reader would count too
        while stream:
            cut = rng.randrange(1, 120_000)
            client.send(stream[:cut])
            stream = stream[cut:]
            await client.writer.drain()
            await asyncio.sleep(0.002)
            (peer,) = server.peers.values()

            def only_half_counts(peer=peer):
                half = peer._decoder.buffered_bytes
                return budget.held in {0 if half <= FREE_BYTES else half, *([half] if half else [])}

            await eventually(only_half_counts)
        answers = await receiving
        assert [len(answer.body) for answer in answers] == sizes
        await eventually(lambda: budget.held == 0)
    assert max(sizes) > FREE_BYTES
    assert budget.most > 0


async def test_a_frame_that_trickles_is_closed_with_a_reason_and_other_peers_are_served():
    budget = Watched()
    limits = LinkLimits(frame_seconds=0.5, idle_seconds=1000, client_idle_seconds=999)
    frame = encode_request(ECHO, 1, None, bytes(2_000))
    async with (
        serving(budget=budget, limits=limits) as (server, port),
        RawClient.connected(port) as trickle,
        RawClient.connected(port) as whole,
        RawClient.connected(port),
    ):
        closing = asyncio.ensure_future(trickle.is_closed())
        for number in range(1_500):
            if closing.done():
                break
            trickle.send(frame[number : number + 1])
            whole.send(frame[:700])
            await asyncio.sleep(0.01)
            whole.send(frame[700:])
            assert (await whole.receive()).opaque == 1
        assert await closing
        assert len(server.peers) == 2, (
            "the peer that sends whole frames, and the silent one, which has its own time-out"
        )
    assert server.metrics.closed_late == 1
    assert "did not come whole within 0.5 s" in budget.refusals_seen[0][1]


async def test_a_half_frame_is_not_late_while_reading_is_paused():
    limits = LinkLimits(frame_seconds=0.3, idle_seconds=1000, client_idle_seconds=999)
    frame = encode_request(ECHO, 1, None, bytes(2_000))
    async with serving(limits=limits) as (server, port), RawClient.connected(port) as client:
        client.send(frame[:500])
        await eventually(lambda: any(peer._decoder.buffered_bytes for peer in server.peers.values()))
        (peer,) = server.peers.values()
        peer.pause_reading()
        client.send(frame[500:])
        await asyncio.sleep(1)
        peer.resume_reading()
        assert (await client.receive()).opaque == 1
    assert server.metrics.closed_late == 0


async def test_connections_are_refused_at_the_reserved_descriptors_and_accepted_again_later():
    spare = os.open(os.devnull, os.O_RDONLY)
    os.close(spare)
    budget = Watched(descriptors_max=spare + 60)
    async with serving(budget=budget) as (server, port), RawClient.connected(port) as honest:
        async with connected_clients(port, 100, b""):
            await eventually(lambda: server.metrics.refused > 0)
            await asyncio.sleep(0.1)
            assert all(peer.descriptor < spare + 60 for peer in server.peers.values())
            honest.ask(1)
            assert (await honest.receive()).opaque == 1
            assert "descriptors" in budget.refusals_seen[0][1]
        await eventually(lambda: len(server.peers) == 1)
        async with RawClient.connected(port) as later:
            later.ask(2)
            assert (await later.receive()).opaque == 2


async def test_an_invalid_stream_is_reported_with_the_peer():
    budget = Watched()
    async with serving(budget=budget) as (_, port), RawClient.connected(port) as client:
        name = client.writer.get_extra_info("sockname")
        client.send(b"\x7f\xff\xff\xff" + bytes(40))
        assert await client.is_closed()
    assert budget.refusals_seen[0][0] == f"127.0.0.1:{name[1]}"
    assert "frame length" in budget.refusals_seen[0][1]
