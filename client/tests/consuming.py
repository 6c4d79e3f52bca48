"""Common parts of consumer tests: a filled topic for each, and waiting for conditions."""

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol

from gantry_wire.headers.admin import CreateTopicHeader
from gantrymq import GantryError, Message, MessageQueue, Producer
from gantrymq.connection.instance import ClientInstance
from gantrymq.settings import ClientSettings


class Served(Protocol):
    """What the fixture `served` gives."""

    nameserver: str
    brokers: tuple[str, ...]


_numbers = itertools.count(1)
WAIT_SECONDS = 120.0
"""RocketMQ's broker keeps the lock of a killed member for 60 s."""


def fresh(name: str) -> str:
    """A name no other test uses."""
    return f"{name}_{os.getpid()}_{next(_numbers)}"


@asynccontextmanager
async def client_of(system: Served) -> AsyncIterator[ClientInstance]:
    instance = await ClientInstance.acquire(ClientSettings(nameservers=system.nameserver))
    try:
        yield instance
    finally:
        await instance.release()


async def make_topic(system: Served, queues: int = 2, name: str = "orders") -> str:
    """Create a topic on every broker; returns its name when the nameserver knows it."""
    topic = fresh(name)
    header = CreateTopicHeader(
        topic=topic, default_topic="TBW102", read_queue_nums=queues, write_queue_nums=queues, perm=6,
        topic_filter_type="SINGLE_TAG",
    )  # fmt: skip
    async with client_of(system) as client:
        for address in system.brokers:
            await client.store_at(address).create_topic(header)
        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                try:
                    found = await client.routing.subscribe_queues(topic)
                except GantryError:
                    found = []
                if len(found) == queues * len(system.brokers):
                    return topic
                await client.routing.poll()
                await asyncio.sleep(0.05)


async def fill(system: Served, topic: str, count: int, *, first: int = 0, tag: str | None = None) -> None:
    """Send messages whose bodies are numbers; a queue gets ascending ones."""
    async with Producer(fresh("filler"), nameservers=system.nameserver) as producer:
        async with client_of(system) as client:
            queues = await client.subscribe_queues(topic)
        for number in range(first, first + count):
            queue: MessageQueue = queues[number % len(queues)]
            await producer.send(Message(topic, str(number).encode(), tag=tag), queue=queue)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():
            await asyncio.sleep(0.02)
