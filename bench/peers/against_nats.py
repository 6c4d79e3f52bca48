"""NATS JetStream with nats-py, as a part of against.py: file storage, `sync_interval: always` for an fsync before each acknowledgement."""

from __future__ import annotations

import asyncio
import contextlib
import time
from asyncio import Event
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any, ClassVar, cast

import nats
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, StorageType, StreamConfig

from gantry_launcher.errors import Refused
from gantry_launcher.layout import nats_server
from measuring.system import end_process
from peers.against_client import STOP_SECONDS_MAX, Client, Rival, Server, Taken, free_port, start

FETCH = 500
PENDING_MAX = 4096


class JetStream(Client):
    """One stream per topic; acknowledged publishes; a pull consumer that acknowledges every message."""

    def __init__(self, connection: Any) -> None:
        self._js = connection.jetstream(publish_async_max_pending=PENDING_MAX)

    async def prepare(self, topic: str) -> None:
        await self._js.add_stream(StreamConfig(name=topic, subjects=[topic], storage=StorageType.FILE))

    async def send(self, topic: str, body: bytes) -> None:
        await self._js.publish(topic, body, timeout=30)

    async def send_until(self, topic: str, body: bytes, in_flight: int, until: float) -> int:
        async def caller() -> int:
            done = 0
            while time.perf_counter() < until:
                await (await self._js.publish_async(topic, body, wait_stall=30))
                done += 1
            return done

        return sum(await asyncio.gather(*(caller() for _ in range(in_flight))))

    async def consume(self, topic: str, taken: Taken, stop: Event) -> None:
        async def arrived(message: Any) -> None:
            taken([message.data])
            await message.ack()

        config = ConsumerConfig(ack_policy=AckPolicy.EXPLICIT, deliver_policy=DeliverPolicy.ALL)
        subscription = await self._js.subscribe(
            topic, durable=f"{topic}-bench", cb=arrived, manual_ack=True, config=config
        )
        await stop.wait()
        await subscription.unsubscribe()


class Nats(Rival):
    name = "NATS JetStream"
    durability: ClassVar[dict[str, str]] = {
        "async": "file storage, sync_interval 2m (its default)",
        "sync": "sync_interval always",
    }

    def missing(self) -> str:
        try:
            nats_server()
        except Refused as error:
            return str(error)
        return ""

    @contextlib.contextmanager
    def server(self, flush: str, folder: Path) -> Generator[Server]:
        port, config = free_port(), folder / "nats.conf"
        sync = "sync_interval: always" if flush == "sync" else ""
        config.write_text(f'jetstream {{\n store_dir: "{folder}/js"\n {sync}\n}}\n')
        command = [str(nats_server()), "-c", str(config), "-a", "127.0.0.1", "-p", str(port)]
        process = start(command, port, folder / "nats.log")
        try:
            yield Server(f"nats://127.0.0.1:{port}", [process.pid])
        finally:
            end_process(process, STOP_SECONDS_MAX)

    @contextlib.asynccontextmanager
    async def client(self, server: Server) -> AsyncGenerator[Client]:
        connection = await cast("Any", nats).connect(server.address)
        try:
            yield JetStream(connection)
        finally:
            await connection.close()
