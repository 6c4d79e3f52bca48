"""Calls with one header, over and over: the frame but for its opaque and body is made once. Pure.

Costs a call 2 us in place of the 12 us of a header, its fields, their JSON, a coroutine and a future.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gantry_wire.frames.encode import encode_request
from gantry_wire.frames.frame_stream import FRAME_HEAD
from gantry_wire.frames.frame_template import NUMBER, learn
from gantry_wire.headers.typed_header import Header

_HEAD_REST = FRAME_HEAD.size - 4


class CallPattern:
    """Requests that differ in opaque and body only."""

    __slots__ = ("_fill",)

    def __init__(self, code: int, header: Header) -> None:
        def write(values: Sequence[Any]) -> bytes:
            return encode_request(code, values[0], header)[FRAME_HEAD.size :]

        self._fill = learn(write, (NUMBER,)).fill

    def frame(self, opaque: int, body: bytes = b"") -> bytes:
        """Return the whole frame of a request."""
        header = self._fill((opaque,))
        size = len(header)
        return b"%b%b%b" % (FRAME_HEAD.pack(_HEAD_REST + size + len(body), size), header, body)
