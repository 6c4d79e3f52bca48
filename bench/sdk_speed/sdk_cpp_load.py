"""The load of the PyPI client that wraps RocketMQ's C++ client, for `sdk_cpp.py`; a separate process. Prints one JSON line.

Arguments: send NAMESERVER TOPIC THREADS SECONDS BODY_BYTES, or consume NAMESERVER TOPIC GROUP COUNT THREADS
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

from rocketmq import client as cpp  # pyright: ignore[reportMissingTypeStubs] - it has no types

CPP: Any = cpp
WARM_SECONDS = 1.0
WAIT_SECONDS = 60.0
SEND_MS = 30_000


def send(nameserver: str, topic: str, threads: int, seconds: float, body_bytes: int) -> dict[str, float]:
    """Send with one call at a time in each thread: this client's way to have several outstanding."""
    producer = CPP.Producer("sdk-bench-cpp", SEND_MS)
    producer.set_namesrv_addr(nameserver)
    producer.start()
    body = b"x" * body_bytes
    _learn_route(producer, topic, body)
    counts, failed = [0] * threads, [0] * threads
    began = time.perf_counter() + WARM_SECONDS
    until = began + seconds

    def work(number: int) -> None:
        while (now := time.perf_counter()) < until:
            message = CPP.Message(topic)
            message.set_body(body)
            try:
                producer.send_sync(message)
            except Exception as error:  # noqa: BLE001 - its errors have no common base; it loses a known route for moments
                failed[number] += 1
                if failed[number] == 1:
                    print(f"a send of the C++ client failed: {error}", file=sys.stderr)
                time.sleep(0.01)
            else:
                counts[number] += now >= began

    started = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for thread in started:
        thread.start()
    time.sleep(max(0.0, began - time.perf_counter()))
    cpu = time.process_time()
    for thread in started:
        thread.join()
    cpu, took = time.process_time() - cpu, time.perf_counter() - began
    producer.shutdown()
    done = sum(counts)
    if any(failed):
        print(f"{sum(failed)} sends of the C++ client failed, {done} did not", file=sys.stderr)
    return {"rate": done / took, "client_us": cpu / max(done, 1) * 1e6}


def _learn_route(producer: Any, topic: str, body: bytes) -> None:
    """Send one message: of threads that begin together, all but one would get an error for a missing route."""
    until = time.perf_counter() + WAIT_SECONDS
    while time.perf_counter() < until:
        message = CPP.Message(topic)
        message.set_body(body)
        try:
            producer.send_sync(message)
        except Exception:  # noqa: BLE001 - its errors have no common base
            time.sleep(0.1)
        else:
            return
    sys.exit("the C++ client found no route")


def consume(nameserver: str, topic: str, group: str, count: int, threads: int) -> dict[str, float]:
    """Receive a filled topic with a callback that only counts."""
    left = count
    began: list[float] = []
    done = threading.Event()
    lock = threading.Lock()

    def listen(_message: object) -> None:
        nonlocal left
        with lock:
            if not began:
                began.extend((time.perf_counter(), time.process_time()))
            left -= 1
            if left <= 0:
                done.set()

    consumer = CPP.PushConsumer(group)
    consumer.set_namesrv_addr(nameserver)
    consumer.set_thread_count(threads)
    consumer.subscribe(topic, listen)
    consumer.start()
    done.wait(WAIT_SECONDS)
    took, cpu = time.perf_counter() - began[0], time.process_time() - began[1]
    consumer.shutdown()
    received = count - max(left, 0)
    return {"rate": received / took, "client_us": cpu / received * 1e6}


def main() -> None:
    word, nameserver, topic, *rest = sys.argv[1:]
    if word == "send":
        result = send(nameserver, topic, int(rest[0]), float(rest[1]), int(rest[2]))
    else:
        result = consume(nameserver, topic, rest[0], int(rest[1]), int(rest[2]))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
