"""A small HTTP load generator: one process, keep-alive connections, one request at a time on each.

Used if wrk is not installed. http_send.py runs it as a separate process; it prints one JSON line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import uvloop

END_OF_HEAD = b"\r\n\r\n"
LENGTH = b"content-length: "
KEY = b"K" * 16
"""Placeholder in a body for the number of the request."""


class Answers(asyncio.Protocol, ABC):
    """A connection with one request at a time: its owner calls `begin` once all are connected, `answered` gets each complete answer."""

    def __init__(self) -> None:
        self._buffer = b""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    @abstractmethod
    def begin(self) -> None:
        """Send the first request."""

    @abstractmethod
    def answered(self, answer: bytes) -> None:
        """Handle an answer, and send the next request or close."""

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer = self._buffer + data if self._buffer else data
        head = buffer.find(END_OF_HEAD)
        if head < 0:
            return
        at = buffer.find(LENGTH, 0, head)
        end = head + 4 + int(buffer[at + len(LENGTH) : buffer.find(b"\r", at)])
        if len(buffer) < end:
            return
        self._buffer = b""
        self.answered(buffer)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        if not self.done.done():
            self.done.set_result(None)


class Connection(Answers):
    """Repeats its request after each answer, until stopped."""

    until = 0.0
    """The time at which it stops, set by its owner."""

    def __init__(self, request: bytes, numbers: Iterator[int] | None) -> None:
        super().__init__()
        self._request, self._numbers = request, numbers
        self._started = 0.0
        self.seconds: list[float] = []
        self.failed = 0

    def answered(self, answer: bytes) -> None:
        now = time.perf_counter()
        self.seconds.append(now - self._started)
        if answer[9:12] != b"200":
            self.failed += 1
        if now < self.until:
            self.begin()
        else:
            self.transport.close()

    def begin(self) -> None:
        request = self._request
        if self._numbers is not None:
            request = request.replace(KEY, b"%016d" % next(self._numbers))
        self._started = time.perf_counter()
        self.transport.write(request)


async def run(url: str, body: bytes, connections: int, seconds: float, method: str) -> dict[str, float]:
    """Load one URL with requests of one body."""
    parts = urlsplit(url)
    path = f"{parts.path}?{parts.query}" if parts.query else parts.path
    head = f"{method} {path} HTTP/1.1\r\nhost: {parts.netloc}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    request = head.encode() + body
    numbers = count(time.time_ns() // 1000) if KEY in body else None
    loop = asyncio.get_running_loop()
    made = [
        (
            await loop.create_connection(
                lambda: Connection(request, numbers),
                parts.hostname or "127.0.0.1",
                parts.port or 80,
            )
        )[1]
        for _ in range(connections)
    ]
    started = time.perf_counter()
    for one in made:
        one.until = started + seconds
        one.begin()
    await asyncio.gather(*(one.done for one in made))
    took = time.perf_counter() - started
    latencies = sorted(second for one in made for second in one.seconds)
    return {
        "requests": len(latencies),
        "failed": sum(one.failed for one in made),
        "seconds": took,
        "per_second": len(latencies) / took,
        "p50_ms": 1000 * latencies[len(latencies) // 2] if latencies else 0.0,
        "p99_ms": 1000 * latencies[int(len(latencies) * 0.99)] if latencies else 0.0,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--method", default="POST")
    options = parser.parse_args()
    body = sys.stdin.buffer.read()
    figures = uvloop.run(run(options.url, body, options.connections, options.seconds, options.method))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
