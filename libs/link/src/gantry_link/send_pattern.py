"""Sends of single messages to one queue, over and over: the constant parts of the frame are made once. Makes bytes, and asks.

Costs a send 2 us in place of the 9 us of a header, its fields, their JSON, a coroutine and a future.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from gantry_link.errors import LinkError
from gantry_link.pool import ConnectionPool
from gantry_link.store_client import Stored, stored_of
from gantry_link.waiting import Waiting
from gantry_wire.codes import RequestCode
from gantry_wire.encode import encode_request
from gantry_wire.frame_stream import FRAME_HEAD
from gantry_wire.headers import SendHeaderV2

Told = Callable[[Stored | Exception], None]
"""Gets what `StoreClient.send` would return or raise."""

_HEAD_REST = FRAME_HEAD.size - 4
_BORN, _TEXT, _OPAQUE = (1_000_000_000_000, 2_111_111_111_111), ("a", "b"), (1_000_000_000, 2_111_111_111)
"""Two values for each of what varies, that differ in every character: where two frames differ, there it stands."""
_encode = msgspec.json.Encoder().encode


class SendPattern:
    """Frames that differ in opaque, born time, properties and body only."""

    __slots__ = ("_parts",)

    def __init__(self, header: SendHeaderV2) -> None:
        """`header` as it is to be sent; its born time and properties do not matter."""
        frame = _header_bytes(header)
        born = _place(frame, _header_bytes(header, born_ms=_BORN[1]))
        text = _place(frame, _header_bytes(header, text=_TEXT[1]))
        text = slice(text.start - 1, text.stop + 1)  # with its quotes
        opaque = _place(frame, _header_bytes(header, opaque=_OPAQUE[1]))
        before, between = frame[: born.start], frame[born.stop : text.start]
        behind, end = frame[text.stop : opaque.start], frame[opaque.stop :]
        self._parts = before, between, behind, end

    def frame(self, opaque: int, born_ms: int, properties: str, body: bytes) -> bytes:
        """Return the whole frame of a message."""
        return b"%s%s%s" % self.parts(opaque, born_ms, properties, body)

    def parts(self, opaque: int, born_ms: int, properties: str, body: bytes) -> tuple[bytes, bytes, bytes]:
        """Return the frame of a message in its three parts, for those who join many."""
        before, between, behind, end = self._parts
        header = b"%s%d%s%s%s%d%s" % (before, born_ms, between, _encode(properties), behind, opaque, end)
        size = len(header)
        return FRAME_HEAD.pack(_HEAD_REST + size + len(body), size), header, body


def _header_bytes(
    header: SendHeaderV2, born_ms: int = _BORN[0], text: str = _TEXT[0], opaque: int = _OPAQUE[0]
) -> bytes:
    header.born_timestamp, header.properties = born_ms, text
    return encode_request(RequestCode.SEND_MESSAGE_V2, opaque, header)[FRAME_HEAD.size :]


def _place(frame: bytes, other: bytes) -> slice:
    """Return where two frames differ that differ in one value."""
    places = [at for at, (one, two) in enumerate(zip(frame, other, strict=True)) if one != two]
    return slice(places[0], places[-1] + 1)


def begin_send(
    pool: ConnectionPool,
    address: str,
    pattern: SendPattern,
    born_ms: int,
    properties: str,
    body: bytes,
    told: Told,
    timeout_seconds: float,
) -> bool:
    """Send a message over the connection that is open; False, and nothing was done, where there is none or it is busy."""
    connection = pool.get_nowait(address)
    if connection is None:
        return False
    opaque = connection.next_opaque()
    waiting = Waiting(stored_of, told)
    try:
        connection.ask(opaque, pattern.frame(opaque, born_ms, properties, body), waiting, timeout_seconds)
    except LinkError:
        return False
    return True
