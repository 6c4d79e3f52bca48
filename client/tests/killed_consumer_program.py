"""A consumer that is killed: writes each number it consumed to a file. Arguments: nameserver, group, topic, file, orderly or not."""

import asyncio
import sys
from pathlib import Path

from gantry import ConsumeFromWhere, PushConsumer, ReceivedMessage


async def main(nameserver: str, group: str, topic: str, file: str, orderly: str) -> None:
    consumer = PushConsumer(
        group,
        nameservers=nameserver,
        start=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        orderly=orderly == "orderly",
        commit_interval=0.2,
    )
    consumer.subscribe(topic)
    with Path(file).open("a", buffering=1) as seen:  # noqa: ASYNC230 - a line a message, and nothing else runs

        @consumer.listener
        async def listener(messages: list[ReceivedMessage]) -> None:
            seen.writelines(
                f"{message.queue.broker}:{message.queue_id} {int(message.body)}\n" for message in messages
            )
            await asyncio.sleep(0.002)

        async with consumer:
            await consumer.run_until_stopped()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
