"""Received messages for tests, made from records; queues, and waiting for what a fake reports."""

import asyncio
from collections.abc import Callable

from gantry_wire.messages.ids import pack_host
from gantry_wire.messages.properties import format_properties
from gantry_wire.records.message_record import build_record, decode_record
from gantrymq.message import MessageQueue, ReceivedMessage

QUEUES = [MessageQueue("orders", "broker-a", n) for n in range(4)]
HOST = pack_host("127.0.0.1", 10911)


def record_bytes(
    offset: int,
    body: bytes = b"hi",
    *,
    topic: str = "orders",
    queue: int = 0,
    reconsumed: int = 0,
    **properties: str,
) -> bytes:
    return build_record(
        topic.encode(), queue, offset, 1000 * offset, body, format_properties(properties), 0, 0, 1, HOST, 2, HOST,
        reconsumed,
    )  # fmt: skip


def received(
    offset: int, body: bytes = b"hi", *, topic: str = "orders", reconsumed: int = 0, **properties: str
) -> ReceivedMessage:
    record = decode_record(record_bytes(offset, body, topic=topic, reconsumed=reconsumed, **properties))
    return ReceivedMessage(record, "broker-a")


async def until(condition: Callable[[], object]) -> None:
    """Wait for what happens in this process only, so soon."""
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.001)
