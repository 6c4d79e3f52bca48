"""Pending connections of a port are all accepted, in few turns of the loop."""

import asyncio
import contextlib
import socket

import pytest
from scripted_link import ECHO, RawClient, serving

from gantry_link.serving.accepting import ACCEPTS_MAX

pytestmark = pytest.mark.anyio
CLIENTS = 100


@contextlib.contextmanager
def waiting_at(port, count):
    """Open this many connections while the loop is blocked."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(count)]


async def turns_until(reached):
    """Count the turns of the loop until `reached`."""
    turns = 0
    while not reached():
        await asyncio.sleep(0)
        turns += 1
        assert turns < 10 * CLIENTS
    return turns


async def test_all_pending_connections_are_accepted_in_a_few_turns():
    async with serving() as (server, port):
        with waiting_at(port, CLIENTS):
            assert await turns_until(lambda: len(server.peers) == CLIENTS) < CLIENTS / 4
            assert server.metrics.accepted == CLIENTS
            assert CLIENTS < ACCEPTS_MAX


async def test_connections_accepted_together_are_answered_like_others_and_at_once():
    async with serving() as (server, port):
        with waiting_at(port, 3):
            async with RawClient.connected(port) as last:
                last.ask(1, b"well", code=ECHO)
                assert (await last.receive()).body == b"well"
            assert all(
                peer.local[1] == port and peer.remote[0] == "127.0.0.1" for peer in server.peers.values()
            )


async def test_a_server_that_stops_accepting_frees_its_port():
    async with serving() as (server, port):
        with waiting_at(port, 1):
            await turns_until(lambda: server.peers)
            server.stop_accepting()
            await turns_until(lambda: is_free(port))
            assert server.peers


def is_free(port):
    """Return whether no process listens on the port."""
    with socket.socket() as found:
        return found.connect_ex(("127.0.0.1", port)) != 0
