"""Connections accepted while a server closes are closed too."""

import asyncio
import gc
import socket

import pytest
from scripted_link import RawClient, eventually, serving

from gantry_link.serving.peer import Peer
from gantry_wire.frames.frame_stream import FRAME_HEAD

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("turns", range(6))
async def test_a_connection_accepted_during_close_is_closed(turns):
    loop = asyncio.get_running_loop()
    async with serving() as (server, port), RawClient.connected(port):
        await eventually(lambda: server.peers)
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            closing = asyncio.create_task(server.close())
            for _ in range(turns):
                await asyncio.sleep(0)
            # as Accepting does with an accepted socket
            accepting = asyncio.create_task(loop.connect_accepted_socket(server._new_peer, ours))
            await asyncio.wait_for(closing, 60)
            await accepting
            await eventually(lambda: not server.peers)


@pytest.mark.parametrize("by_server", [False, True])
async def test_a_closed_connection_frees_its_half_frame_without_garbage_collection(by_server):
    half = FRAME_HEAD.pack(8_000_000, 100) + bytes(1_000_000)
    async with serving() as (server, port), RawClient.connected(port) as client:
        await eventually(lambda: server.peers)
        gc.collect()
        gc.disable()
        try:
            (peer,) = server.peers.values()
            decoder, number = peer._decoder, id(peer)
            client.send(half)
            await eventually(lambda decoder=decoder: decoder.buffered_bytes == len(half))
            del decoder
            if by_server:
                peer.abort()
            else:
                client.writer.close()
            del peer
            await eventually(lambda: not server.peers)
            await eventually(
                lambda: not any(isinstance(one, Peer) and id(one) == number for one in gc.get_objects())
            )
        finally:
            gc.enable()
