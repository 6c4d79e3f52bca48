"""NATS servers of a test: real processes with JetStream on free ports, alone or as a cluster, and a proxy that cuts connections."""

import asyncio
import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from broker_store.replication.register import (
    JetStreamRegister,
    Outcome,
    RegisterAway,
    RegisterBehind,
    Registered,
    Unknown,
    Waits,
)
from gantry_chassis.nats_connection import NatsRequests

SERVER = Path(sys.executable).parent / "nats-server"
START_SECONDS_MAX = 90


class Ports:
    """Ports that no other process gets: they are bound, and a server that reuses addresses may listen."""

    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def one(self) -> int:
        held = socket.socket()
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        self._held.append(held)
        return int(held.getsockname()[1])

    def close(self) -> None:
        for held in self._held:
            held.close()


class Node:
    """One NATS server, which a test starts, stops and kills."""

    def __init__(self, folder: Path, name: str, port: int, cluster: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name, self.port, self.data = name, port, folder / "js"
        self.url = f"nats://127.0.0.1:{port}"
        self._config = folder / "nats.conf"
        self._config.write_text(
            f'server_name: {name}\nlisten: "127.0.0.1:{port}"\n'
            f'jetstream {{ store_dir: "{self.data}", sync_interval: always }}\n{cluster}'
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        log = self._config.with_name("log")
        self._process = subprocess.Popen([str(SERVER), "-c", str(self._config), "-l", str(log)])
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.02)
        raise TimeoutError(log.read_text())

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)


@contextlib.contextmanager
def nodes(folder: Path, count: int) -> Iterator[list[Node]]:
    """Start one server, or a cluster."""
    ports = Ports()
    routes = [ports.one() for _ in range(count)]
    urls = ", ".join(f"nats://127.0.0.1:{port}" for port in routes)

    def cluster(own: int) -> str:
        return f'cluster {{ name: tests, listen: "127.0.0.1:{own}", routes: [{urls}] }}\n'

    made = [
        Node(folder / f"n{at}", f"n{at}", ports.one(), cluster(own) if count > 1 else "")
        for at, own in enumerate(routes)
    ]
    try:
        for node in made:
            node.start()
        yield made
    finally:
        for node in made:
            node.kill()
        ports.close()


class Cut:
    """A proxy before a NATS server. It can swallow what the server says, and cut its connections."""

    def __init__(self, to_port: int) -> None:
        self._to_port = to_port
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.is_deaf = False
        self.swallowed = bytearray()

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        """Listen, and yield the url."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        try:
            yield f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()
            self.cut()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Cut all connections at once."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there = await asyncio.open_connection("127.0.0.1", self._to_port)
        self._writers += [writer, there]
        self._tasks += [
            asyncio.ensure_future(self._copy(reader, there, is_answer=False)),
            asyncio.ensure_future(self._copy(there_reader, writer, is_answer=True)),
        ]

    async def _copy(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if is_answer and self.is_deaf:
                    self.swallowed += data
                    continue
                writer.write(data)
                await writer.drain()
        writer.close()


def record(
    version: int, nonce: str, group: str = "broker-a", leader: str = "a", **more: object
) -> Registered:
    """Build a record; what a test does not name is the same everywhere."""
    fields = {"epoch": version, "members": ("a", "b", "c"), "boots": 1, "origin": "first", **more}
    return Registered(version=version, group=group, leader=leader, nonce=nonce, **fields)  # pyright: ignore[reportArgumentType]


SECONDS_MAX = 120
AT_ONCE = Waits(answer_seconds_max=30, lack_seconds=0)
"""For one server, which knows at once what it lacks, on a disk that may be busy."""


@contextlib.asynccontextmanager
async def register(
    *urls: str, replicas: int = 1, group: str = "broker-a", remembered: int = 0, waits: Waits = AT_ONCE
) -> AsyncIterator[JetStreamRegister]:
    """Yield a register on a connection of its own."""
    requests = NatsRequests(urls, "test", random.Random())
    try:
        yield JetStreamRegister(requests, group, replicas, remembered, waits)
    finally:
        await requests.close()


async def decided(one: JetStreamRegister, new: Registered) -> Outcome:
    """Repeat a write until its outcome is known."""
    async with asyncio.timeout(SECONDS_MAX):
        while isinstance(outcome := await one.write(new.version - 1, new), Unknown):
            await asyncio.sleep(0.02)
        return outcome


async def newest(one: JetStreamRegister) -> Registered:
    """Read until the register answers."""
    async with asyncio.timeout(SECONDS_MAX):
        while True:
            try:
                return await one.read()
            except (RegisterAway, RegisterBehind):
                await asyncio.sleep(0.05)
