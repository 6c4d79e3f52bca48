"""A cheap client: it keeps a window of sends outstanding on each connection and counts the answers.

Frames are one template with the unique key filled in, so that the client is not what is measured. Every answer is checked
for success.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import cast

from gantry_wire.codes import RequestCode
from gantry_wire.frames.encode import encode_request
from gantry_wire.frames.frame_stream import FrameDecoder
from gantry_wire.headers.messages import SendHeaderV2
from gantry_wire.messages.batch import BatchItem, encode_batch

KEY_PLACE = "0" * 32
_SUCCESS = b'{"code":0,'


@dataclass
class Sends:
    """The frames of a topic, spread over its queues in turn; every message has its own unique key.

    With a `batch` above 1 a frame is a batch of so many messages.
    """

    topic: str
    queue_ids: range
    body: bytes
    batch: int = 1
    _templates: list[list[bytes]] = field(default_factory=list[list[bytes]])
    _next: int = 0

    def __post_init__(self) -> None:
        for queue_id in self.queue_ids:
            text = f"UNIQ_KEY\x01{KEY_PLACE}\x02WAIT\x01true\x02"
            header = SendHeaderV2(
                producer_group="flood", topic=self.topic, default_topic="TBW102", default_topic_queue_nums=4, queue_id=queue_id,
                sys_flag=0, born_timestamp=int(time.time() * 1000), flag=0, properties=text, batch=self.batch > 1,
            )  # fmt: skip
            code, body = RequestCode.SEND_MESSAGE_V2, self.body
            if self.batch > 1:
                items = [BatchItem(0, self.body, text.encode())] * self.batch
                code, body = RequestCode.SEND_BATCH_MESSAGE, encode_batch(items)
            self._templates.append(encode_request(code, 7, header, body).split(KEY_PLACE.encode()))

    def go_on_with(self, others: Iterable[Sends]) -> None:
        """Also send to the queues of other topics, in turn."""
        for other in others:
            self._templates += other._templates  # noqa: SLF001 - of our own kind

    def frames(self, count: int) -> bytes:
        """Return the next `count` frames, joined."""
        templates, first = self._templates, self._next
        self._next = first + count
        some = len(templates)
        frames: list[bytes] = []
        for number in range(first, first + count):
            template = templates[number % some]
            keys = [b"%032X" % (number * self.batch + item) for item in range(len(template) - 1)]
            frames.append(b"".join(chain.from_iterable(zip_longest(template, keys, fillvalue=b""))))
        return b"".join(frames)


class _Line(asyncio.Protocol):
    def __init__(self, sends: Sends, window: int, until: float) -> None:
        self.sends, self.window, self.until = sends, window, until
        self.answered = self.refused = 0
        self.first_refusal = b""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._outstanding = 0
        self._decoder = FrameDecoder()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is not a subclass
        self._send(self.window)

    def data_received(self, data: bytes) -> None:
        frames = self._decoder.receive(data)
        for frame in frames:
            if not frame.header.startswith(_SUCCESS):
                self.refused += 1
                self.first_refusal = self.first_refusal or frame.header
        self.answered += len(frames)
        self._outstanding -= len(frames)
        if time.monotonic() < self.until:
            self._send(len(frames))
        elif not self._outstanding and not self.done.done():
            self.done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionResetError("the store closed the connection"))

    def close(self) -> None:
        self._transport.close()

    def _send(self, count: int) -> None:
        self._outstanding += count
        self._transport.write(self.sends.frames(count))


async def flood(
    store: str,
    sends: Sends,
    tls: ssl.SSLContext | None = None,
    /,
    *,
    connections: int = 8,
    window: int = 256,
    seconds: float = 10.0,
) -> float:
    """Return messages acknowledged per second, with `window` in all outstanding over `connections`. Raises if any was refused."""
    host, _, port = store.rpartition(":")
    loop = asyncio.get_running_loop()
    began = time.monotonic()
    lines: list[_Line] = []
    for _ in range(connections):
        _, line = await loop.create_connection(
            lambda: _Line(sends, window // connections, began + seconds), host, int(port), ssl=tls
        )
        lines.append(line)
    await asyncio.gather(*(line.done for line in lines))
    took = time.monotonic() - began
    for line in lines:
        line.close()
    refused = sum(line.refused for line in lines)
    if refused:
        raise RuntimeError(
            f"{refused} sends were refused, the first with {next(line.first_refusal for line in lines if line.refused)!r}"
        )
    return sum(line.answered for line in lines) / took
