"""A small HTTP load generator: one process, keep-alive connections, one request at a time on each.

Used where wrk is not installed. Run by http_send.py as a process of its own; prints one JSON line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from urllib.parse import urlsplit

import uvloop

END_OF_HEAD = b"\r\n\r\n"
LENGTH = b"content-length: "


class Connection(asyncio.Protocol):
    """Sends its request again as soon as it is answered, until told to stop."""

    def __init__(self, request: bytes, until: float) -> None:
        self._request, self._until = request, until
        self._buffer = b""
        self._started = 0.0
        self.seconds: list[float] = []
        self.failed = 0
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._send()

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
        now = time.perf_counter()
        self.seconds.append(now - self._started)
        if buffer[9:12] != b"200":
            self.failed += 1
        if now < self._until:
            self._send()
        else:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        if not self.done.done():
            self.done.set_result(None)

    def _send(self) -> None:
        self._started = time.perf_counter()
        self._transport.write(self._request)


async def run(url: str, body: bytes, connections: int, seconds: float) -> dict[str, float]:
    """Load one URL with POSTs of one body."""
    parts = urlsplit(url)
    head = f"POST {parts.path} HTTP/1.1\r\nhost: {parts.netloc}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    request = head.encode() + body
    loop = asyncio.get_running_loop()
    started = time.perf_counter()
    made = [
        (
            await loop.create_connection(
                lambda: Connection(request, started + seconds),
                parts.hostname or "127.0.0.1",
                parts.port or 80,
            )
        )[1]
        for _ in range(connections)
    ]
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
    options = parser.parse_args()
    body = sys.stdin.buffer.read()
    figures = uvloop.run(run(options.url, body, options.connections, options.seconds))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
