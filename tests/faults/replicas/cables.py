"""TCP proxies between the replicas of a group, and between each replica and each NATS server: a test cuts them, each direction for itself.

A cut holds the bytes, as a network does that drops packets: what was sent before arrives when the cut ends, unless a side gave up. A
connection of a replica is recognised by its process, so clients, which use the same addresses, are never cut.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

CHUNK_BYTES = 1 << 16
CLIENT = "client"

Pids = Callable[[], dict[int, str]]
"""Returns the names of the replicas' processes, by pid."""


class Cables:
    """All proxies, in a thread of their own."""

    def __init__(self, pids: Pids) -> None:
        self._pids = pids
        self._loop = asyncio.new_event_loop()
        self._cut: set[tuple[str, str]] = set()
        self._healed = asyncio.Event()
        self._healed.set()
        self._writers: dict[asyncio.StreamWriter, tuple[str, str]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="cables")
        self._thread.start()

    def lay(self, host: str, port: int, to_port: int, to: str, of: str = "") -> None:
        """Listen at `host:port` for connections to `to` at 127.0.0.1:`to_port`. `of`: whose they are; empty: found by their process."""

        async def listen() -> None:
            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                task = asyncio.current_task()
                assert task is not None
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
                with contextlib.suppress(OSError):
                    await self._serve(reader, writer, of, to, to_port)
                writer.transport.abort()

            self._servers.append(await asyncio.start_server(serve, host, port))

        asyncio.run_coroutine_threadsafe(listen(), self._loop).result(10)

    def cut(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Hold what the first of each pair says to the second."""
        chosen = set(pairs)

        def now() -> None:
            self._cut |= chosen
            self._healed.clear()

        self._now(now)

    def heal(self) -> None:
        """End all cuts."""

        def now() -> None:
            self._cut.clear()
            self._healed.set()

        self._now(now)

    def reset(self, name: str) -> None:
        """Break all connections from and to a name at once."""

        def now() -> None:
            for writer, ends in list(self._writers.items()):
                if name in ends:
                    writer.transport.abort()

        self._now(now)

    def close(self) -> None:
        """End all proxies."""

        async def end() -> None:
            for server in self._servers:
                server.close()
            for writer in list(self._writers):
                writer.transport.abort()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _now(self, change: Callable[[], None]) -> None:
        async def run() -> None:
            change()

        asyncio.run_coroutine_threadsafe(run(), self._loop).result(10)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, of: str, to: str, to_port: int
    ) -> None:
        # To look for a caller costs milliseconds: not for a connection to a process that does not run.
        there_reader, there = await asyncio.open_connection("127.0.0.1", to_port)
        source = of or self._caller(writer)
        self._writers[writer] = self._writers[there] = (source, to)
        try:
            while (source, to) in self._cut or (to, source) in self._cut:
                await self._healed_once()
            await asyncio.gather(
                self._copy(reader, there, (source, to)), self._copy(there_reader, writer, (to, source))
            )
        finally:
            for one in (writer, there):
                self._writers.pop(one, None)
                one.close()

    async def _copy(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: tuple[str, str]
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                while way in self._cut:
                    await self._healed_once()
                writer.write(data)
                await writer.drain()
        while way in self._cut:
            await self._healed_once()
        writer.close()

    async def _healed_once(self) -> None:
        await self._healed.wait()
        await asyncio.sleep(0)

    def _caller(self, writer: asyncio.StreamWriter) -> str:
        """Return which replica a connection is of, by the owner of its socket."""
        there, here = writer.get_extra_info("peername"), writer.get_extra_info("sockname")
        mark = f"socket:[{_inode(there[:2], here[:2])}]"
        for pid, name in self._pids().items():
            with contextlib.suppress(OSError):
                for handle in Path(f"/proc/{pid}/fd").iterdir():
                    with contextlib.suppress(OSError):
                        if str(handle.readlink()) == mark:
                            return name
        return CLIENT


_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBBI")
_ADDRESSES = struct.Struct(">HH4s12x4s12x")
SOCK_DIAG_BY_FAMILY, NETLINK_SOCK_DIAG, NLM_F_REQUEST = 20, 4, 1
INODE_AT = _HEADER.size + 68
"""Of the answer: the last field of its inet_diag_msg."""


def _inode(source: tuple[str, int], target: tuple[str, int]) -> int:
    """Return the number of the socket at `source` that is connected to `target`, 0 for none. /proc/net/tcp would list all of the machine."""
    hosts = [socket.inet_aton(host) for host in (source[0], target[0])]
    body = _REQUEST.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF)
    body += _ADDRESSES.pack(source[1], target[1], *hosts) + struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as asked:
        asked.send(_HEADER.pack(_HEADER.size + len(body), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 1, 0) + body)
        answer = asked.recv(4096)
    kind = _HEADER.unpack_from(answer)[1]
    return struct.unpack_from("=I", answer, INODE_AT)[0] if kind == SOCK_DIAG_BY_FAMILY else 0
