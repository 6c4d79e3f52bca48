"""Streams of Valkey (or Redis) with redis-py, as a part of against.py: append-only file, `appendfsync always` for an fsync before each answer."""

from __future__ import annotations

import contextlib
import time
from asyncio import Event
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any, ClassVar, cast

from redis.asyncio import BlockingConnectionPool, Redis

from gantry_launcher.errors import Refused
from gantry_launcher.layout import valkey_server
from measuring.system import end_process
from peers.against_client import STOP_SECONDS_MAX, Client, Rival, Server, Taken, free_port, start

READ = 500
BLOCK_MS = 1000
CONNECTIONS = 64
FIELD = b"b"


class Streams(Client):
    """XADD, several in flight by a pipeline (otherwise redis-py has one outstanding request per connection); XREADGROUP and XACK."""

    def __init__(self, redis: Any) -> None:
        self._redis = redis

    async def prepare(self, topic: str) -> None:
        await self._redis.xgroup_create(topic, "bench", id="0", mkstream=True)

    async def send(self, topic: str, body: bytes) -> None:
        await self._redis.xadd(topic, {FIELD: body})

    async def send_until(self, topic: str, body: bytes, in_flight: int, until: float) -> int:
        done, fields = 0, {FIELD: body}
        while time.perf_counter() < until:
            pipeline = self._redis.pipeline(transaction=False)
            for _ in range(in_flight):
                pipeline.xadd(topic, fields)
            done += len(await pipeline.execute())
        return done

    async def consume(self, topic: str, taken: Taken, stop: Event) -> None:
        while not stop.is_set():
            found = await self._redis.xreadgroup("bench", "one", {topic: ">"}, count=READ, block=BLOCK_MS)
            for _, entries in cast("list[tuple[bytes, list[tuple[bytes, dict[bytes, bytes]]]]]", found):
                taken([fields[FIELD] for _, fields in entries])
                await self._redis.xack(topic, "bench", *(number for number, _ in entries))


class Valkey(Rival):
    name = "Valkey streams"
    durability: ClassVar[dict[str, str]] = {
        "async": "appendfsync everysec (its default)",
        "sync": "appendfsync always",
    }

    def missing(self) -> str:
        try:
            valkey_server()
        except Refused as error:
            return str(error)
        return ""

    @contextlib.contextmanager
    def server(self, flush: str, folder: Path) -> Generator[Server]:
        port = free_port()
        fsync = "always" if flush == "sync" else "everysec"
        words = f"--port {port} --bind 127.0.0.1 --dir {folder} --appendonly yes --appendfsync {fsync}"
        command = [str(valkey_server()), *words.split(" "), "--save", ""]
        process = start(command, port, folder / "valkey.log")
        try:
            yield Server(str(port), [process.pid])
        finally:
            end_process(process, STOP_SECONDS_MAX)

    @contextlib.asynccontextmanager
    async def client(self, server: Server) -> AsyncGenerator[Client]:
        pool: Any = BlockingConnectionPool(
            host="127.0.0.1", port=int(server.address), protocol=2, max_connections=CONNECTIONS, timeout=60
        )
        async with Redis(connection_pool=pool) as redis:
            yield Streams(redis)
        await pool.disconnect()
