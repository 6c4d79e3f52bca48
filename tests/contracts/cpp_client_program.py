"""A user's program on the unmodified official C++ based client (`rocketmq` 0.4.4): sends in every mode, then consumes by pull and push.

Run in its own process: python cpp_client_program.py NAMESERVER TOPIC COUNT. Prints one JSON line.
"""

from __future__ import annotations

import json
import sys
import threading
import time

from rocketmq.client import Message, Producer, PullConsumer, PushConsumer, SendStatus

PUSH_SECONDS_MAX = 90.0


def _message(topic: str, number: int) -> Message:
    message = Message(topic)
    message.set_keys(f"key-{number}")
    message.set_tags("odd" if number % 2 else "even")
    message.set_property("number", str(number))
    message.set_body(f"body-{number} äöü €")
    return message


def send(nameserver: str, topic: str, count: int) -> dict[str, object]:
    producer = Producer("cpp-producers")
    producer.set_namesrv_addr(nameserver)
    producer.start()
    try:
        sent = [producer.send_sync(_message(topic, number)) for number in range(count)]
        producer.send_oneway(_message(topic, count))
        ordered = [producer.send_orderly(_message(topic, count + 1 + n), 7) for n in range(4)]
    finally:
        producer.shutdown()
    return {
        "sent": sum(1 for result in [*sent, *ordered] if result.status == SendStatus.OK),
        "distinctIds": len({result.msg_id for result in [*sent, *ordered]}),
    }


def pull(nameserver: str, topic: str, expected: int) -> list[dict[str, str]]:
    consumer = PullConsumer("cpp-pullers")
    consumer.set_namesrv_addr(nameserver)
    consumer.start()
    found: dict[str, dict[str, str]] = {}
    try:
        for _ in range(20):  # the one-way message may still be in flight
            for message in consumer.pull(topic):
                found[message.id] = {"body": message.body.decode(), "tag": message.tags.decode(), "keys": message.keys.decode(),
                                     "number": message.get_property("number").decode()}  # fmt: skip
            if len(found) >= expected:
                break
            time.sleep(0.2)
    finally:
        consumer.shutdown()
    return list(found.values())


def push(nameserver: str, topic: str, expected: int) -> list[str]:
    """Consume only the tag `even` from the first offset; return the bodies that the callback got."""
    bodies: list[str] = []
    enough = threading.Event()

    def listen(message: object) -> None:
        bodies.append(message.body.decode())  # type: ignore[attr-defined]
        if len(bodies) >= expected:
            enough.set()

    consumer = PushConsumer("cpp-pushed")
    consumer.set_namesrv_addr(nameserver)
    consumer.subscribe(topic, listen, "even")
    consumer.start()
    try:
        enough.wait(PUSH_SECONDS_MAX)
        time.sleep(0.5)  # surplus messages would arrive now
    finally:
        consumer.shutdown()
    return bodies


def main() -> None:
    nameserver, topic, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    seen = send(nameserver, topic, count)
    everything = count + 1 + 4
    seen["pulled"] = pull(nameserver, topic, everything)
    seen["pushed"] = push(nameserver, topic, (everything + 1) // 2)
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
