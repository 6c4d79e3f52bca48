"""A member of a consumer group that `sdk_consumer.py` kills, or stops by SIGTERM. Arguments: nameserver, group, topic."""

from __future__ import annotations

import asyncio
import signal
import sys

from gantrymq import ConsumeFromWhere, PushConsumer, ReceivedMessage


async def main(nameserver: str, group: str, topic: str) -> None:
    consumer = PushConsumer(group, nameservers=nameserver, start=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    consumer.subscribe(topic)

    @consumer.listener
    async def listener(messages: list[ReceivedMessage]) -> None:  # pyright: ignore[reportUnusedFunction]
        del messages

    leaving = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leaving.set)
    async with consumer:
        await leaving.wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
