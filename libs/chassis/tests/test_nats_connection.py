"""Requests over a real NATS server: answered, refused, lost with their connection, and sent to the next server."""

import asyncio
import contextlib
import random
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gantry_chassis.nats_connection import NatsRequests, NoAnswer, NotSent

SERVER = Path(sys.executable).parent / "nats-server"
pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def port() -> Iterator[int]:
    with held_port() as port:
        yield port


@contextlib.contextmanager
def held_port() -> Iterator[int]:
    """Yield a port that no other process gets: it is bound, and a server that reuses addresses may listen."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])


@contextlib.contextmanager
def nats_server(port: int, *more: str) -> Iterator[str]:
    process = subprocess.Popen(
        [str(SERVER), "-a", "127.0.0.1", "-p", str(port), "-l", "/dev/null", "-js=false", *more]
    )
    try:
        for _ in range(9000):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
        yield f"nats://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


@contextlib.asynccontextmanager
async def requests(*urls: str, token_file: str = "") -> AsyncIterator[NatsRequests]:
    made = NatsRequests(urls, "test", random.Random(1), token_file)
    try:
        yield made
    finally:
        await made.close()


@contextlib.asynccontextmanager
async def echo(url: str, seconds: float = 0) -> AsyncIterator[None]:
    """Answer requests on `echo` with their header and payload."""
    import nats

    client = await nats.connect(url)

    async def answer(message) -> None:
        await asyncio.sleep(seconds)
        await message.respond((message.headers or {}).get("X", "").encode() + message.data)

    await client.subscribe("echo", cb=answer)
    await client.flush()
    try:
        yield
    finally:
        await client.close()


async def test_a_request_gets_its_answer_and_overlapping_ones_theirs(port: int) -> None:
    with nats_server(port) as url:
        async with echo(url), requests(url) as ours:
            assert await ours.request("echo", b"1", 30, {"X": "h"}) == (b"h1", True)
            answers = await asyncio.gather(
                *(ours.request("echo", b"%d" % number, 30) for number in range(20))
            )
            assert [answer.payload for answer in answers] == [b"%d" % number for number in range(20)]
            assert ours.connections == 1


async def test_a_request_that_nobody_listens_to_is_answered_so(port: int) -> None:
    with nats_server(port) as url:
        async with requests(url) as ours:
            assert not (await ours.request("nobody", b"", 30)).has_responder


async def test_a_late_answer_is_no_answer_and_reaches_no_other_request(port: int) -> None:
    with nats_server(port) as url:
        async with echo(url, seconds=0.3), requests(url) as ours:
            with pytest.raises(NoAnswer):
                await ours.request("echo", b"first", 0.1)
            assert (await ours.request("echo", b"second", 30)).payload == b"second"


async def test_a_lost_connection_ends_its_requests_at_once_and_another_opens(port: int) -> None:
    async with requests(f"nats://127.0.0.1:{port}") as ours:
        with pytest.raises(NotSent):
            await ours.request("echo", b"", 5)
        with nats_server(port) as url:
            async with echo(url, seconds=60):
                waiting = asyncio.ensure_future(ours.request("echo", b"", 60))
                while not ours.connections:
                    await asyncio.sleep(0.01)
                await asyncio.sleep(0.05)
        async with asyncio.timeout(30):
            with pytest.raises(NoAnswer):
                await waiting
        with nats_server(port) as url:
            async with echo(url):
                assert (await ours.request("echo", b"x", 30)).payload == b"x"


async def test_the_next_server_is_used_when_one_is_away_or_says_nothing(port: int) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    with held_port() as unused, nats_server(port) as url:
        async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
            mute = f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            async with echo(url), requests(f"nats://127.0.0.1:{unused}", mute, url) as ours:
                with pytest.raises(NotSent, match="no NATS server was reached in time"):
                    await ours.request("echo", b"x", 0.2)
                assert (await ours.request("echo", b"x", 30)).payload == b"x"


async def test_a_request_that_may_be_repeated_reaches_a_listener_that_comes_later(port: int) -> None:
    import nats

    with nats_server(port) as url:
        client = await nats.connect(url)
        await client.subscribe("echo")  # somebody listens, and says nothing
        await client.flush()
        async with requests(url) as ours:
            asking = asyncio.ensure_future(ours.request("echo", b"x", 60, repeat_seconds=0.05))
            await asyncio.sleep(0.2)
            async with echo(url):
                assert (await asking).payload == b"x"
            assert ours.connections == 1
        await client.close()


async def test_the_token_is_read_for_each_connection(port: int, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    with nats_server(port, "--auth", "new") as url:
        async with requests(url, token_file=str(token)) as ours:
            with pytest.raises(NotSent):
                await ours.request("nobody", b"", 30)
            token.write_text("new")
            assert not (await ours.request("nobody", b"", 30)).has_responder
