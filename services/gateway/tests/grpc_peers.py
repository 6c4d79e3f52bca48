"""What tests of the gRPC side give to its parts: calls of clients, and Telemetry streams."""

from __future__ import annotations

import asyncio

from gantry_link.grpc.calls import CallInfo
from gateway.grpc.calls import Caller, read_caller
from gateway.grpc.proto.telemetry import TelemetryCommand


def info_of(client_id: str = "c1", *, peer: str = "10.0.0.7:4711", **headers: str) -> CallInfo:
    """Return a call of a client; further headers with underscores in place of hyphens."""
    found = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    if client_id:
        found[b"x-mq-client-id"] = client_id.encode()
    return CallInfo(found, None, peer, is_secure=False, user="")


def caller(client_id: str = "c1", **headers: str) -> Caller:
    return read_caller(info_of(client_id, **headers))


class ScriptedStream:
    """A Telemetry stream whose client writes what a test puts in, and whose answers a test takes."""

    def __init__(self, info: CallInfo) -> None:
        self.info = info
        self._written: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._answers: asyncio.Queue[bytes] = asyncio.Queue()
        self.reads: asyncio.Event | None = None
        """The client reads nothing until it is set."""

    @property
    def unread(self) -> int:
        """How many commands the server has not read."""
        return self._written.qsize()

    def write(self, command: TelemetryCommand | bytes | None) -> None:
        self._written.put_nowait(
            command.SerializeToString() if isinstance(command, TelemetryCommand) else command
        )

    async def answer(self) -> TelemetryCommand:
        async with asyncio.timeout(10):
            return TelemetryCommand.FromString(await self._answers.get())

    async def receive(self) -> bytes | None:
        return await self._written.get()

    async def send(self, message: bytes) -> None:
        if self.reads is not None:
            await self.reads.wait()
        self._answers.put_nowait(message)


class Steady:
    """A clock that only a test moves."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds
