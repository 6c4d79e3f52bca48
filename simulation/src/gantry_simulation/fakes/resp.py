"""The bytes of Valkey's protocol, RESP 2 and 3: reads requests, formats answers.

Facts: the protocol description of valkey.io, and the answers of valkey-server 9.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

END = b"\r\n"
RESP_3 = 3
INLINE_BYTES_MAX = 64 * 1024
ARGUMENTS_MAX = (1 << 31) - 1
ARGUMENT_BYTES_MAX = 512 * 1024 * 1024

Answer = bytes | int | str | None | Sequence["Answer"] | dict[str, "Answer"]
"""Bytes are a bulk string, a text a simple string, a dict a map."""


class Malformed(Exception):
    """The request is no RESP. The message is what the server says before it closes the connection."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error reply, without its sign."""

    text: str


class Requests:
    """Turns a byte stream, cut anywhere, into requests."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._missing: int = 0
        """Arguments that the request being read still lacks."""
        self._arguments: list[bytes] = []

    def receive(self, data: bytes) -> None:
        """Add bytes."""
        self._buffer += data

    def next(self) -> list[bytes] | None:
        """Return the next whole request; None while there is none. Raises Malformed."""
        while True:
            if not self._missing and not self._begin():
                return None
            while self._missing:
                if not self._take_argument():
                    return None
            if self._arguments:
                arguments, self._arguments = self._arguments, []
                return arguments

    def _begin(self) -> bool:
        line = self._line()
        if line is None:
            return False
        if not line.startswith(b"*"):
            self._arguments = line.split()
            return True
        self._missing = max(_length(line, ARGUMENTS_MAX, "invalid multibulk length", least=-(1 << 62)), 0)
        return True

    def _take_argument(self) -> bool:
        end = self._buffer.find(END)
        if end < 0:
            return False
        line = bytes(self._buffer[:end])
        if not line.startswith(b"$"):
            raise Malformed(f"expected '$', got '{chr(line[0]) if line else chr(13)}'")
        size = _length(line, ARGUMENT_BYTES_MAX, "invalid bulk length")
        begin = end + len(END)
        if len(self._buffer) < begin + size + len(END):
            return False
        self._arguments.append(bytes(self._buffer[begin : begin + size]))
        del self._buffer[: begin + size + len(END)]
        self._missing -= 1
        return True

    def _line(self) -> bytes | None:
        end = self._buffer.find(b"\n")
        if end < 0:
            if len(self._buffer) > INLINE_BYTES_MAX:
                raise Malformed("too big inline request")
            return None
        line = bytes(self._buffer[:end]).removesuffix(b"\r")
        del self._buffer[: end + 1]
        return line


def _length(line: bytes, most: int, refusal: str, least: int = 0) -> int:
    try:
        length = int(line[1:])
    except ValueError:
        raise Malformed(refusal) from None
    if not least <= length <= most:
        raise Malformed(refusal)
    return length


def formatted(answer: Answer | Refusal, version: int) -> bytes:
    """Return the bytes of an answer in this version of the protocol."""
    if isinstance(answer, Refusal | str | int):
        sign, text = _line(answer)
        return sign + text.encode() + END
    if answer is None:
        return b"_\r\n" if version == RESP_3 else b"$-1\r\n"
    if isinstance(answer, bytes):
        return b"$%d\r\n%b\r\n" % (len(answer), answer)
    if isinstance(answer, dict):
        parts: list[Answer] = [part for key, value in answer.items() for part in (key.encode(), value)]
        head = b"%%%d\r\n" % len(answer) if version == RESP_3 else b"*%d\r\n" % len(parts)
    else:
        parts = list(answer)
        head = b"*%d\r\n" % len(parts)
    return head + b"".join(formatted(part, version) for part in parts)


def _line(answer: Refusal | str | int) -> tuple[bytes, str]:
    if isinstance(answer, Refusal):
        return b"-", answer.text
    return (b"+", answer) if isinstance(answer, str) else (b":", str(answer))
