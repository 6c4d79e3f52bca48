"""Heads of requests that were read in full before, by their bytes: a client sends the same ones over and over. Pure.

All bytes of a head count, but for the digits of its Content-Length: what was understood of one then holds for every other.
What is not exactly one whole request, or has another shape, is for the parser.
"""

from collections.abc import MutableMapping
from typing import Any, Generic, NamedTuple, TypeVar

KNOWN_BYTES_MAX = 2048
"""Longer heads are not kept."""
HEADS_MAX = 2048
"""Heads that are kept; when there are more, all are forgotten: these are clients that write something else each time."""
LENGTH_DIGITS_MAX = 7

_END = b"\r\n\r\n"
_LENGTHS = (b"\r\ncontent-length: ", b"\r\nContent-Length: ")
_VALUE_AT = len(_LENGTHS[0])
_CHANGING = frozenset({b"x-request-id", b"traceparent", b"tracestate", b"mq-idempotency-key"})
"""Headers whose value is another one each time: a head with one of them would be kept in vain."""
_OTHERWISE = frozenset({b"expect", b"upgrade", b"transfer-encoding", b"content-encoding"})
"""Headers that want more than a body and an answer."""
_STAYS = (b"connection", b"keep-alive")
_EVENT = b"ce-"

Meaning = TypeVar("Meaning")


class Cut(NamedTuple):
    """One whole request: its head without the digits of its length, and where the body begins."""

    head: bytes
    body_at: int


def cut(data: bytes) -> Cut | None:
    """Return `data` cut into head and body where it is exactly one request that has a length."""
    end = data.find(_END, 0, KNOWN_BYTES_MAX)
    if end < 0:
        return None
    at = data.find(_LENGTHS[0], 0, end)
    if at < 0:
        at = data.find(_LENGTHS[1], 0, end)
        if at < 0:
            return None
    at += _VALUE_AT
    digits_end = data.find(b"\r", at)
    digits = data[at:digits_end]
    body_at = end + len(_END)
    if not digits.isdigit() or len(digits) > LENGTH_DIGITS_MAX or len(data) != body_at + int(digits):
        return None
    return Cut(data[:at] + data[digits_end:end], body_at)


def is_usual(scope: MutableMapping[str, Any]) -> bool:
    """Whether a request that the parser has read is of the kind whose head is worth keeping."""
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    names = [name for name, _value in headers]
    return (
        scope["method"] == "POST"
        and scope["http_version"] == "1.1"
        and not scope["query_string"]
        and names.count(b"content-length") == 1
        and _OTHERWISE.isdisjoint(names)
        and _CHANGING.isdisjoint(names)
        and not any(name.startswith(_EVENT) for name in names)
        and all(value.lower() == _STAYS[1] for name, value in headers if name == _STAYS[0])
    )


class KnownHeads(Generic[Meaning]):
    """What heads mean, by their bytes."""

    __slots__ = ("_known", "find")

    def __init__(self) -> None:
        self._known: dict[bytes, Meaning] = {}
        self.find = self._known.get
        """Returns the meaning of a head, None for one that is not known."""

    def __len__(self) -> int:
        return len(self._known)

    def keep(self, head: bytes, meaning: Meaning) -> None:
        """Keep what a head means."""
        if len(self._known) >= HEADS_MAX:
            self._known.clear()
        self._known[head] = meaning
