"""What the comparison asks of every broker: a server that can be started here, and its usual Python client. Part of against.py."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from asyncio import Event
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path
from typing import ClassVar, NamedTuple

from system import end_process

START_SECONDS_MAX = 90.0
STOP_SECONDS_MAX = 30.0

Taken = Callable[[list[bytes]], None]
"""Told the bodies of what arrived."""


class Server(NamedTuple):
    """A running broker: where its client finds it, and all of its processes."""

    address: str
    pids: list[int]


class NotStarted(Exception):
    """A rival's server does not come up; its last words say why."""


class Client(ABC):
    """Sends and consumes from this process, by the broker's usual Python client."""

    @abstractmethod
    async def prepare(self, topic: str) -> None:
        """Make a topic (stream, queue) that keeps its messages on disk."""

    @abstractmethod
    async def send(self, topic: str, body: bytes) -> None:
        """Send one message; return when the broker acknowledged it."""

    @abstractmethod
    async def send_until(self, topic: str, body: bytes, in_flight: int, until: float) -> int:
        """Keep so many sends on their way until then (perf_counter); return how many were acknowledged."""

    @abstractmethod
    async def consume(self, topic: str, taken: Taken, stop: Event) -> None:
        """Take all messages of a topic from its first on, acknowledge them as this client usually does, until told to stop."""


class Rival(ABC):
    """One system of the comparison."""

    name: str
    durability: ClassVar[dict[str, str]]
    """In words, by flush: `async` (acknowledged once written) and `sync` (once on disk)."""

    @abstractmethod
    def missing(self) -> str:
        """Return why it cannot be run here; empty where it can."""

    @abstractmethod
    def server(self, flush: str, folder: Path) -> AbstractContextManager[Server]:
        """Run it with its data in a folder; entered once it listens."""

    @abstractmethod
    def client(self, server: Server) -> AbstractAsyncContextManager[Client]:
        """Connect."""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def start(command: list[str], port: int, log: Path) -> subprocess.Popen[bytes]:
    """Start a server and wait until it listens. Raises NotStarted with its last words when it does not."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd=log.parent
        )
    until = time.monotonic() + START_SECONDS_MAX
    while True:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1.0).close()
            return process
        if process.poll() is not None or time.monotonic() > until:
            end_process(process, STOP_SECONDS_MAX)
            last = " ".join(log.read_text(errors="replace").split())[-400:]
            raise NotStarted(f"{command[0]} did not start: {last}")
        time.sleep(0.01)
