"""RabbitMQ's quorum queues with aio-pika, as a part of against.py, if both are installed. A quorum queue always syncs."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
import os
import shutil
import subprocess
import time
from asyncio import Event
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any, ClassVar

from measuring.system import end_process
from peers.against_client import STOP_SECONDS_MAX, Client, Rival, Server, Taken, free_port, start

PREFETCH = 500
DEBIAN_SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
"""The program behind Debian's command of that name, which switches to a user that may not write to our folders."""


class Queues(Client):
    """Publisher confirms, and a consumer that acknowledges every message."""

    def __init__(self, pika: Any, channel: Any) -> None:
        self._pika, self._channel = pika, channel

    async def prepare(self, topic: str) -> None:
        await self._channel.declare_queue(topic, durable=True, arguments={"x-queue-type": "quorum"})

    async def send(self, topic: str, body: bytes) -> None:
        message = self._pika.Message(body, delivery_mode=self._pika.DeliveryMode.PERSISTENT)
        await self._channel.default_exchange.publish(message, topic)

    async def send_until(self, topic: str, body: bytes, in_flight: int, until: float) -> int:
        async def caller() -> int:
            done = 0
            while time.perf_counter() < until:
                await self.send(topic, body)
                done += 1
            return done

        return sum(await asyncio.gather(*(caller() for _ in range(in_flight))))

    async def consume(self, topic: str, taken: Taken, stop: Event) -> None:
        async def arrived(message: Any) -> None:
            taken([message.body])
            await message.ack()

        queue = await self._channel.get_queue(topic)
        tag = await queue.consume(arrived)
        await stop.wait()
        await queue.cancel(tag)


class RabbitMq(Rival):
    name = "RabbitMQ quorum"
    durability: ClassVar[dict[str, str]] = {"sync": "quorum queue, which syncs its log before it confirms"}

    def missing(self) -> str:
        if not shutil.which("rabbitmq-server"):
            return "there is no rabbitmq-server on PATH"
        if not shutil.which("epmd"):
            return "there is no epmd of Erlang on PATH"
        return "" if importlib.util.find_spec("aio_pika") else "its client is not installed: aio-pika"

    @contextlib.contextmanager
    def server(self, flush: str, folder: Path) -> Generator[Server]:
        del flush
        port = free_port()
        (folder / "rabbitmq.conf").write_text(f"listeners.tcp.1 = 127.0.0.1:{port}\n")
        (folder / "plugins").write_text("[].\n")
        own = {
            "RABBITMQ_NODENAME": f"bench{port}@localhost", "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": f"{folder}/data", "RABBITMQ_LOG_BASE": f"{folder}/log",
            "RABBITMQ_CONFIG_FILE": f"{folder}/rabbitmq.conf", "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/plugins",
            "HOME": str(folder), "ERL_EPMD_ADDRESS": "127.0.0.1", "ERL_EPMD_PORT": str(free_port()),
        }  # fmt: skip
        os.environ.update(own)
        process = start([_command()], port, folder / "rabbitmq.log")
        try:
            yield Server(f"amqp://guest:guest@127.0.0.1:{port}/", [process.pid])
        finally:
            end_process(process, STOP_SECONDS_MAX)
            # Erlang leaves its port mapper daemon running
            subprocess.run(["epmd", "-kill"], check=False, stdout=subprocess.DEVNULL)

    @contextlib.asynccontextmanager
    async def client(self, server: Server) -> AsyncGenerator[Client]:
        pika: Any = importlib.import_module("aio_pika")
        connection = await pika.connect(server.address)
        async with connection:
            channel = await connection.channel(publisher_confirms=True)
            await channel.set_qos(prefetch_count=PREFETCH)
            yield Queues(pika, channel)


def _command() -> str:
    return str(DEBIAN_SERVER) if DEBIAN_SERVER.exists() else "rabbitmq-server"
