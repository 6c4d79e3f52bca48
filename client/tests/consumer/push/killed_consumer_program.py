"""A consumer that is killed, or leaves at SIGTERM: writes a line for each message it consumed. Arguments: nameserver, group, topic, file, orderly or not."""

import asyncio
import signal
import sys
import time
from pathlib import Path

import uvloop

from gantrymq import ConsumeFromWhere, PushConsumer, ReceivedMessage


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
            for message in messages:
                queue = f"{message.queue.broker}:{message.queue_id}"
                seen.write(f"{queue} {int(message.body)} {time.monotonic_ns()}\n")
            await asyncio.sleep(0.002)

        leaving = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leaving.set)
        async with consumer:
            await leaving.wait()


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
