"""One connection to a gateway's own server, for tests of known heads."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import asynccontextmanager, suppress

from gantry_chassis.peers.budget import Budget
from gateway.connection.serving import HttpServer

SEND = "/v1/topics/orders/messages"
RECEIVE = "/v1/topics/orders/groups/g1/messages:receive"
ACK = "/v1/topics/orders/groups/g1/messages:ack"
VARIES = {"messageId", "offsetMessageId", "queueId", "queueOffset", "requestId", "broker"}


class Line:
    """One connection to a server, and the number of requests on the fast path, by path."""

    def __init__(self, system, gateway, http, port, reader, writer):
        self.system, self.gateway, self.http, self.port = system, gateway, http, port
        self.reader, self.writer = reader, writer
        self.known, self.fast, self.slow = 0, Counter(), 0
        start, answer = gateway.fast_path.start, gateway.fast_path._answer

        def counted(known, *arguments):
            self.known += 1
            slow = self.slow
            start(known, *arguments)
            self.fast[known.scope["path"]] += slow == self.slow

        def slowly(call):
            self.slow += 1
            return answer(call)

        gateway.fast_path.start, gateway.fast_path._answer = counted, slowly

    async def post(self, body: bytes, *headers: str, path: str = SEND, length: int | None = None):
        has_host = any(header.lower().startswith("host:") for header in headers)
        head = [
            f"POST {path} HTTP/1.1",
            *([] if has_host else ["host: gateway"]),
            f"content-length: {len(body) if length is None else length}",
        ]
        self.writer.write("\r\n".join([*head, *headers]).encode("latin-1") + b"\r\n\r\n" + body)
        return await self.answer()

    async def reconnect(self) -> None:
        await ended(self.writer)
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)

    async def answer(self):
        head = (await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 60)).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        headers = [line.partition(": ")[::2] for line in lines]
        size = int(dict(headers)["content-length"])
        return int(first.split()[1]), headers, await asyncio.wait_for(self.reader.readexactly(size), 60)


async def ended(writer) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


@asynccontextmanager
async def line_to(system, **options):
    gateway = system.gateway(**options)
    http = HttpServer(gateway.app, gateway.fast_path, Budget(), drain_seconds=2)
    port = await http.start("127.0.0.1", 0, reuse_port=False)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    one = Line(system, gateway, http, port, reader, writer)
    try:
        yield one
    finally:
        await ended(one.writer)
        gateway.drain()
        await http.close()


def shown(answer):
    """Return the parts of a response that do not change between responses."""
    status, headers, body = answer
    content = json.loads(body)
    parts = content["results"] if isinstance(content, dict) and "results" in content else [content]
    kept = [{name: value for name, value in part.items() if name not in VARIES} for part in parts]
    names = [
        (name, "" if name in {"date", "x-request-id", "content-length"} else value) for name, value in headers
    ]
    return status, names, kept
