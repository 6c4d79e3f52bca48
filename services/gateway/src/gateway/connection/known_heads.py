"""Heads of requests that were read in full before, by their bytes: a client sends the same ones over and over. Pure.

All bytes of a head count, but for the digits of its Content-Length: what was understood of one then holds for every other.
What is not exactly one whole request, or has another shape, is for the parser.
"""

from collections.abc import MutableMapping
from typing import Any

from gantry_wire.frame_template import marked_number

KNOWN_BYTES_MAX = 2048
"""Longer heads are not kept."""
HEADS_MAX = 2048
"""Heads that are kept."""
LENGTH_DIGITS_MAX = 7

_END = b"\r\n\r\n"
_END_SIZE = len(_END)
_cut_length = marked_number((b"\r\ncontent-length: ", b"\r\nContent-Length: "), b"\r", LENGTH_DIGITS_MAX)
_CHANGING = frozenset({b"x-request-id", b"traceparent", b"tracestate", b"mq-idempotency-key"})
"""Headers whose value is another one each time: a head with one of them would be kept in vain."""
_OTHERWISE = frozenset({b"expect", b"upgrade", b"transfer-encoding", b"content-encoding"})
"""Headers that want more than a body and an answer."""
_STAYS = (b"connection", b"keep-alive")
_EVENT = b"ce-"


def cut(data: bytes) -> tuple[bytes, int] | None:
    """Split `data` if it is exactly one request with a length.

    Returns its head without the digits of the length, and where its body begins.
    """
    end = data.find(_END, 0, KNOWN_BYTES_MAX)
    if end < 0:
        return None
    found = _cut_length(data, end)
    body_at = end + _END_SIZE
    if found is None or len(data) != body_at + found[1]:
        return None
    return found[0], body_at


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
