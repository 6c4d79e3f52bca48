"""The interface to every compared broker: a server that can be started here, and its usual Python client. Part of against.py."""

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

from measuring.system import end_process

START_SECONDS_MAX = 90.0
STOP_SECONDS_MAX = 30.0

Taken = Callable[[list[bytes]], None]
"""Called with the bodies of received messages."""


class Server(NamedTuple):
    """A running broker: its client address, and all of its processes."""

    address: str
    pids: list[int]


class NotStarted(Exception):
    """A server does not start; contains the last lines of its log."""


class Client(ABC):
    """Sends and consumes in this process with the broker's usual Python client."""

    @abstractmethod
    async def prepare(self, topic: str) -> None:
        """Create a topic (stream, queue) that keeps its messages on disk."""

    @abstractmethod
    async def send(self, topic: str, body: bytes) -> None:
        """Send a message; return when the broker acknowledged it."""

    @abstractmethod
    async def send_until(self, topic: str, body: bytes, in_flight: int, until: float) -> int:
        """Keep `in_flight` sends outstanding until then (perf_counter); return the number of acknowledged ones."""

    @abstractmethod
    async def consume(self, topic: str, taken: Taken, stop: Event) -> None:
        """Consume a topic from its first message on, with the client's usual acknowledgements, until stopped."""


class Rival(ABC):
    """A system of the comparison."""

    name: str
    durability: ClassVar[dict[str, str]]
    """Descriptions by flush: `async` (acknowledged once written) and `sync` (once on disk)."""

    @abstractmethod
    def missing(self) -> str:
        """Return why it cannot run here; empty if it can."""

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
    """Start a server and wait until it listens. Raises NotStarted with the last lines of its log."""
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
