"""Sends of single messages to one queue, over and over: the fixed parts of the frame are made once. Pure.

Costs a send 2 us in place of the 9 us of a header, its fields, their JSON, a coroutine and a future.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from gantry_wire.codes import RequestCode
from gantry_wire.frames.encode import encode_request
from gantry_wire.frames.frame_stream import FRAME_HEAD
from gantry_wire.frames.frame_template import JSON_TEXT, NUMBER, learn
from gantry_wire.headers.messages import SendHeaderV2

_HEAD_REST = FRAME_HEAD.size - 4
_encode = msgspec.json.Encoder().encode


class SendPattern:
    """Frames that differ in opaque, born time, properties and body only."""

    __slots__ = ("_fill",)

    def __init__(self, header: SendHeaderV2) -> None:
        """`header` as it is to be sent; its born time and properties do not matter."""

        def write(values: Sequence[Any]) -> bytes:
            header.born_timestamp, header.properties, opaque = values
            return encode_request(RequestCode.SEND_MESSAGE_V2, opaque, header)[FRAME_HEAD.size :]

        self._fill = learn(write, (NUMBER, JSON_TEXT, NUMBER)).fill

    def frame(self, born_ms: int, properties: str, body: bytes, opaque: int) -> bytes:
        """Return the whole frame of a message."""
        header = self._fill((born_ms, _encode(properties), opaque))
        size = len(header)
        return b"%b%b%b" % (FRAME_HEAD.pack(_HEAD_REST + size + len(body), size), header, body)

    def parts(self, born_ms: int, properties: str, body: bytes, opaque: int) -> tuple[bytes, bytes, bytes]:
        """Return the frame of a message in its three parts, for those who join many."""
        header = self._fill((born_ms, _encode(properties), opaque))
        size = len(header)
        return FRAME_HEAD.pack(_HEAD_REST + size + len(body), size), header, body
