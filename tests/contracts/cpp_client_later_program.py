"""A user's program on the official C++ based client (`rocketmq` 0.4.4): a delay level, an orderly consumer, a message that fails.

Run in its own process: python cpp_client_later_program.py NAMESERVER TOPIC. Prints a line when its message has failed twice; ends, and
prints one JSON line, when stdin does. The topics TOPIC-delayed, -ordered and -failing exist.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from rocketmq.client import Message, Producer, PushConsumer, RecvMessage, dll, ffi_check

SECONDS_MAX = 120.0
SUCCESS, LATER = 0, 1
ORDERED = 60


def _message(topic: str, body: str) -> Message:
    message = Message(topic)
    message.set_keys(f"key-{body}")
    message.set_body(body)
    return message


def consume(
    nameserver: str, group: str, topic: str, taken: Callable[[Any], int], *, orderly: bool = False
) -> PushConsumer:
    """Start a consumer that returns the result of `taken` to the client. (The package's own `subscribe` turns a failure into success.)"""
    consumer = PushConsumer(group, orderly)
    consumer.set_namesrv_addr(nameserver)
    consumer.set_instance_name(group)
    ffi_check(dll.Subscribe(consumer._handle, topic.encode(), b"*"))
    consumer._register_callback(lambda _, message: taken(RecvMessage(message)))
    consumer.start()
    return consumer


def delayed(nameserver: str, producer: Producer, topic: str) -> dict[str, object]:
    """Level 1 is one second."""
    came: list[tuple[str, float]] = []
    arrived = threading.Event()

    def take(message: Any) -> int:
        came.append((message.body.decode(), time.time()))
        arrived.set()
        return SUCCESS

    consumer = consume(nameserver, "cpp-delayed", topic, take)
    message = _message(topic, "in a second")
    message.set_delay_time_level(1)
    sent = time.time()
    producer.send_sync(message)
    arrived.wait(SECONDS_MAX)
    consumer.shutdown()
    return {"bodies": [body for body, _ in came], "seconds": came[0][1] - sent if came else None}


def ordered(nameserver: str, producer: Producer, topic: str) -> list[str]:
    """Send all messages to one queue."""
    for number in range(ORDERED):
        producer.send_orderly(_message(topic, str(number)), 7)
    came: list[str] = []
    enough = threading.Event()

    def take(message: Any) -> int:
        came.append(message.body.decode())
        if len(came) >= ORDERED:
            enough.set()
        return SUCCESS

    consumer = consume(nameserver, "cpp-ordered", topic, take, orderly=True)
    enough.wait(SECONDS_MAX)
    consumer.shutdown()
    return came


def failing(nameserver: str, producer: Producer, topic: str) -> list[int]:
    """Fail every message; return the reconsume times seen until stdin ends: the second failure is sent back by then."""
    times: list[int] = []
    retried = threading.Event()

    def take(message: Any) -> int:
        times.append(message.reconsume_times)
        if len(times) > 1:
            retried.set()
        return LATER

    consumer = consume(nameserver, "cpp-failing", topic, take)
    producer.send_sync(_message(topic, "fails"))
    retried.wait(SECONDS_MAX)
    print("failed twice", flush=True)
    sys.stdin.read()
    consumer.shutdown()
    return times


def create_retry_topic(nameserver: str, topic: str) -> None:
    """Start the group once. A client looks for its retry topic when it starts, and only ten seconds later again."""
    consume(nameserver, "cpp-failing", topic, lambda _: LATER).shutdown()


def main() -> None:
    nameserver, topic = sys.argv[1], sys.argv[2]
    producer = Producer("cpp-later")
    producer.set_namesrv_addr(nameserver)
    producer.start()
    create_retry_topic(nameserver, f"{topic}-failing")
    seen = {
        "delayed": delayed(nameserver, producer, f"{topic}-delayed"),
        "ordered": ordered(nameserver, producer, f"{topic}-ordered"),
        "failing": failing(nameserver, producer, f"{topic}-failing"),
    }
    producer.shutdown()
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
