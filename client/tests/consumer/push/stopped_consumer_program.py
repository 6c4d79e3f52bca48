"""A worker as in docs/sdk.md: consumes until SIGTERM, which it sends itself once it has seen `at` messages. Writes a line for each.

A test that watched the file from outside would be late on a busy machine: all messages would be consumed before.
"""

import asyncio
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import gantrymq
import gantrymq.blocking

FROM_START = gantrymq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


class Work:
    """Notes messages in a file, and sends the signal after `left` of them."""

    def __init__(self, file: str, left: int) -> None:
        self.seen = Path(file).open("a", buffering=1)  # noqa: SIM115 - to the end of the process
        self.left = left
        self._is_awaited = False
        self._lock = threading.Lock()

    def is_awaited(self) -> bool:
        """Whether the program waits for its end. Listeners wait until it does: they might consume everything before."""
        self._is_awaited = self._is_awaited or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        return self._is_awaited

    def note(self, messages: list[gantrymq.ReceivedMessage]) -> None:
        with self._lock:  # a second signal would end the program at once
            self.seen.writelines(f"{int(message.body)}\n" for message in messages)
            self.left -= len(messages)
            is_last = self.left <= 0
            if is_last:
                self.left = sys.maxsize
        if is_last:
            os.kill(os.getpid(), signal.SIGTERM)


def main(nameserver: str, group: str, topic: str, file: str, kind: str, at: str) -> None:
    options: dict[str, Any] = {
        "nameservers": nameserver, "start": FROM_START, "orderly": kind == "orderly",
        "batch_size": 8 if kind == "batch" else 1, "commit_interval": 3600,
    }  # fmt: skip
    work = Work(file, int(at))

    async def wait(messages: list[gantrymq.ReceivedMessage]) -> None:
        while not work.is_awaited():
            await asyncio.sleep(0.001)
        work.note(messages)
        await asyncio.sleep(0.01)

    def block(messages: list[gantrymq.ReceivedMessage]) -> None:
        while not work.is_awaited():
            time.sleep(0.001)
        work.note(messages)
        time.sleep(0.01)

    def fail(messages: list[gantrymq.ReceivedMessage], context: gantrymq.ConsumeContext) -> None:
        block(messages)
        if int(messages[0].body) % 10 == 0:
            context.delay_level = -1
            raise ValueError("a dead letter")

    async def serve() -> None:
        consumer = gantrymq.PushConsumer(group, **options)
        consumer.subscribe(topic)
        consumer.on_messages({"threads": block, "failing": fail}.get(kind, wait))
        async with consumer:
            await consumer.run_until_stopped()

    if kind == "blocking":
        consumer = gantrymq.blocking.PushConsumer(group, **options)
        consumer.subscribe(topic)
        consumer.on_messages(block)
        with consumer:
            consumer.run_until_stopped()
    else:
        asyncio.run(serve())
    sys.stdout.write("ended in order\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
