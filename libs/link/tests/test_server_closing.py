"""Connections that come while a server closes: they are closed too."""

import asyncio
import socket

import pytest
from scripted_link import RawClient, eventually, serving

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("turns", range(6))
async def test_a_connection_that_was_being_accepted_is_not_left_open(turns):
    loop = asyncio.get_running_loop()
    async with serving() as (server, port), RawClient.connected(port):
        await eventually(lambda: server.peers)
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            closing = asyncio.create_task(server.close())
            for _ in range(turns):
                await asyncio.sleep(0)
            # as Accepting does with what it has taken from the listener
            accepting = asyncio.create_task(loop.connect_accepted_socket(server._new_peer, ours))
            await asyncio.wait_for(closing, 2)
            await accepting
            await eventually(lambda: not server.peers, 2)
