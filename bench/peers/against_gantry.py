"""Gantry, and RocketMQ's own broker, with Gantry's Python SDK, as parts of against.py: the same client, the same protocol."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from asyncio import Event
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import ClassVar

from gantrymq import ConsumeFromWhere, Message, Producer, PushConsumer, ReceivedMessage
from gantrymq.errors import NoRoute
from measuring.system import pids_of, started
from peers.against_client import START_SECONDS_MAX, Client, Rival, Server, Taken
from peers.rocketmq_run import Java, rocketmq
from sdk_speed.sdk_measures import SEND_SECONDS


class Sdk(Client):
    """The SDK's producer, a caller for each send in flight, and its push consumer."""

    def __init__(self, producer: Producer, nameserver: str) -> None:
        self._producer, self._nameserver = producer, nameserver

    async def prepare(self, topic: str) -> None:
        async with asyncio.timeout(START_SECONDS_MAX):
            while True:
                try:
                    await self._producer.send(Message(topic, b"made"))
                except NoRoute:  # RocketMQ's broker listens before its nameserver knows it
                    await asyncio.sleep(0.05)
                else:
                    return

    async def send(self, topic: str, body: bytes) -> None:
        await self._producer.send(Message(topic, body))

    async def send_until(self, topic: str, body: bytes, in_flight: int, until: float) -> int:
        async def caller() -> int:
            done = 0
            while time.perf_counter() < until:
                await self._producer.send(Message(topic, body))
                done += 1
            return done

        return sum(await asyncio.gather(*(caller() for _ in range(in_flight))))

    async def consume(self, topic: str, taken: Taken, stop: Event) -> None:
        first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
        consumer = PushConsumer(f"{topic}-bench", nameservers=self._nameserver, start=first, batch_size=32)
        consumer.subscribe(topic)

        async def listener(messages: list[ReceivedMessage]) -> None:
            taken([message.body for message in messages])

        consumer.on_messages(listener)
        async with consumer:
            await stop.wait()


class _BySdk(Rival):
    @contextlib.asynccontextmanager
    async def client(self, server: Server) -> AsyncGenerator[Client]:
        nameserver = server.address.split(" ")[0]
        async with Producer("bench", nameservers=nameserver, send_timeout=SEND_SECONDS) as producer:
            yield Sdk(producer, nameserver)


class Gantry(_BySdk):
    name = "Gantry"
    durability: ClassVar[dict[str, str]] = {"async": "--flush async", "sync": "--flush sync"}

    def missing(self) -> str:
        return ""

    @contextlib.contextmanager
    def server(self, flush: str, folder: Path) -> Generator[Server]:
        with started("--flush", flush, data_parent=str(folder)) as system:
            yield Server(f"{system.nameserver} {system.store}", list(pids_of(system).values()))


class RocketMq(_BySdk):
    name = "RocketMQ"
    durability: ClassVar[dict[str, str]] = {"async": "ASYNC_FLUSH", "sync": "SYNC_FLUSH"}

    def __init__(self, jars: str) -> None:
        self._jars = jars

    def missing(self) -> str:
        if not self._jars:
            return "its jars are not given: --jars DIR[:DIR...]; bench/README.md says how to get them"
        return "" if shutil.which("java") else "there is no java on PATH"

    @contextlib.contextmanager
    def server(self, flush: str, folder: Path) -> Generator[Server]:
        with rocketmq(Java(self._jars, folder), folder, flush) as broker:
            yield Server(broker.nameserver, [broker.pid, broker.nameserver_pid])
