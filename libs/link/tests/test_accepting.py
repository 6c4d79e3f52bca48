"""Connections that wait at a port: all are taken, in few turns of the loop."""

import asyncio
import contextlib
import socket

import pytest
from scripted_link import ECHO, RawClient, serving

from gantry_link.accepting import ACCEPTS_MAX

pytestmark = pytest.mark.anyio
CLIENTS = 100


@contextlib.contextmanager
def waiting_at(port, count):
    """So many connections, made while the loop stands still."""
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


async def test_all_who_wait_are_taken_in_a_few_turns_and_not_one_in_each():
    async with serving() as (server, port):
        with waiting_at(port, CLIENTS):
            assert await turns_until(lambda: len(server.peers) == CLIENTS) < CLIENTS / 4
            assert server.figures.accepted == CLIENTS
            assert CLIENTS < ACCEPTS_MAX


async def test_those_who_waited_are_answered_as_any_other_and_without_delay():
    async with serving() as (server, port):
        with waiting_at(port, 3):
            async with RawClient.connected(port) as last:
                last.ask(1, b"well", code=ECHO)
                assert (await last.receive()).body == b"well"
            assert all(
                peer.local[1] == port and peer.remote[0] == "127.0.0.1" for peer in server.peers.values()
            )


async def test_a_server_that_accepts_no_more_lets_its_port_go():
    async with serving() as (server, port):
        with waiting_at(port, 1):
            await turns_until(lambda: server.peers)
            server.stop_accepting()
            await turns_until(lambda: is_free(port))
            assert server.peers


def is_free(port):
    """Whether nobody listens there any more."""
    with socket.socket() as found:
        return found.connect_ex(("127.0.0.1", port)) != 0
