"""HTTP/1.1 as a plain client speaks it: kept connections, a time-out for each call, no retries."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import msgspec

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class NoAnswer(Exception):
    """No whole answer came. The call may have been carried out, unless no connection was made."""


class Silence(NoAnswer):
    """The server did not answer in time."""


class Answer(NamedTuple):
    """An answer with its body."""

    status: int
    body: bytes

    @property
    def is_success(self) -> bool:
        """Whether the call was carried out."""
        return self.status == 200

    def json(self) -> Any:
        """Return the decoded body."""
        return msgspec.json.decode(self.body)


class HttpClient:
    """Calls of one server. Calls at the same time use connections of their own."""

    def __init__(self, address: str) -> None:
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._idle: list[Streams] = []

    async def call(self, method: str, path: str, body: object = None, *, seconds: float) -> Answer:
        """Return the answer. Raises NoAnswer."""
        content = b"" if body is None else msgspec.json.encode(body)
        head = f"{method} {path} HTTP/1.1\r\nhost: {self._host}:{self._port}\r\n"
        if body is not None:
            head += f"content-type: application/json\r\ncontent-length: {len(content)}\r\n"
        streams: Streams | None = None
        try:
            async with asyncio.timeout(seconds):
                streams = (
                    self._idle.pop() if self._idle else await asyncio.open_connection(self._host, self._port)
                )
                streams[1].write(f"{head}\r\n".encode() + content)
                answer, stays = await _read(streams[0])
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            if streams is not None:
                streams[1].transport.abort()
            failure = Silence if isinstance(error, TimeoutError) and streams is not None else NoAnswer
            raise failure(repr(error)) from error
        except asyncio.CancelledError:
            if streams is not None:
                streams[1].transport.abort()
            raise
        if stays:
            self._idle.append(streams)
        else:
            streams[1].close()
        return answer

    def close(self) -> None:
        """Close the idle connections."""
        for _, writer in self._idle:
            writer.close()
        self._idle.clear()


async def _read(reader: asyncio.StreamReader) -> tuple[Answer, bool]:
    """Return the next answer, and whether the connection stays."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().rstrip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Answer(int(first.split()[1]), body), headers.get("connection", "").lower() != "close"
