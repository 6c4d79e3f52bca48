"""Calls with one header, over and over: the frame but for its opaque and body is made once. Makes bytes, and asks.

Costs a call 2 us in place of the 12 us of a header, its fields, their JSON, a coroutine and a future.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gantry_link.calls import Answer
from gantry_link.errors import LinkError
from gantry_link.pool import ConnectionPool
from gantry_wire.encode import encode_request
from gantry_wire.frame_stream import FRAME_HEAD
from gantry_wire.frame_template import NUMBER, learn
from gantry_wire.header import Header

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


def begin_call(
    pool: ConnectionPool,
    address: str,
    lane: str,
    pattern: CallPattern,
    body: bytes,
    answer: Answer,
    timeout_seconds: float,
) -> bool:
    """Send a request over the connection that is open; False, and nothing was done, where there is none or it is busy."""
    connection = pool.get_nowait(address, lane)
    if connection is None:
        return False
    opaque = connection.next_opaque()
    try:
        connection.ask(opaque, pattern.frame(opaque, body), answer, timeout_seconds)
    except LinkError:
        return False
    return True
