"""A slave of RocketMQ's HA protocol in Python, written from docs/protocol.md: keeps the bytes that a master sends, and reports how far it has them."""

import asyncio
import contextlib
import struct


class PythonSlave:
    """One slave. `log` is its copy, which begins at `begin`."""

    def __init__(self, port: int, end: int = 0, log: bytes = b"") -> None:
        self.port = port
        self.begin = end - len(log)
        self.log = bytearray(log)
        self.end = end
        self.idle_frames = 0
        self.sizes: list[int] = []
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    async def connect(self) -> None:
        """Connect and report where the copy ends."""
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.report(self.end)

    def report(self, position: int) -> None:
        self.writer.write(struct.pack(">q", position))

    async def frame(self) -> None:
        """Take one frame, and check its position as RocketMQ's slave does. Raises IncompleteReadError when the master closes."""
        position, size = struct.unpack(">qi", await self.reader.readexactly(12))
        data = await self.reader.readexactly(size)
        if self.end == 0:
            self.begin = self.end = position
        assert position == self.end, (position, self.end)
        if not size:
            self.idle_frames += 1
            return
        self.sizes.append(size)
        self.log += data
        self.end += size
        self.report(self.end)

    async def follow(self, end: int) -> None:
        """Take frames until the copy ends at this position."""
        async with asyncio.timeout(60):
            while self.end < end:
                await self.frame()

    async def is_closed(self) -> bool:
        """Whether the master closes the connection without another byte of the log."""
        try:
            async with asyncio.timeout(60):
                return await self.reader.read(1) == b""
        except ConnectionError:
            return True

    async def leave(self) -> None:
        """Close the connection, which the master may have closed."""
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()
