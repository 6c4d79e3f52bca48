"""The HTTP port of a store, with one reply to everything."""

import asyncio
from contextlib import asynccontextmanager

from gateway.stores.http_replicas import HTTP_PORT_ABOVE


@asynccontextmanager
async def store_that_replies(reply: bytes):
    """Yield the store's address, and the list of the heads of requests it got."""
    asked: list[bytes] = []

    async def answer(reader, writer):
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(reply)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1] - HTTP_PORT_ABOVE}", asked


def reply_of(status: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d x\r\ncontent-length: %d\r\n\r\n" % (status, len(body)) + body
