"""Which headers a request may have (RFC 9113, 8.2 and 8.3)."""

import re
from typing import Final, TypeVar

from gantry_h2.hpack.static_table import Header

NO_LENGTH: Final = -1
HEADERS_KEPT_MAX: Final = 1024
HEADER_BYTES_KEPT_MAX: Final = 256
"""Clients repeat their headers, so those that passed are kept, of all clients together. Larger ones are checked each time: they would fill the memory."""
_NAME: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
_BAD_VALUE: Final = re.compile(rb"[\x00\r\n]|^[ \t]|[ \t]$")
_PSEUDO: Final = frozenset((b":method", b":scheme", b":authority", b":path"))
T = TypeVar("T")
_passed: Final = set[Header]()
_passed_values: Final = set[bytes]()
"""Values of pseudo-headers."""
_OF_HTTP1: Final = frozenset(
    (b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade")
)


class Malformed(Exception):
    """A request that breaks the rules for headers: its stream ends with PROTOCOL_ERROR."""


def check_request(headers: tuple[Header, ...]) -> int:
    """Return the content length that a request announces, NO_LENGTH for none. Raises Malformed."""
    pseudo: dict[bytes, bytes] = {}
    length = NO_LENGTH
    for place, header in enumerate(headers):
        if header in _passed:
            continue
        name, value = header
        if name[:1] == b":":
            if name not in _PSEUDO or name in pseudo or place != len(pseudo):
                raise Malformed(f"{name!r} is unknown, there twice, or behind other headers")
            pseudo[name] = value
            if value not in _passed_values:
                _check_value(name, value)
                _keep(_passed_values, value, len(value))
            continue
        if name == b"content-length":
            length = _content_length(value, length)
            _check_header(name, value)
        else:
            _check_regular(header)
    _check_pseudo(pseudo)
    return length


def check_trailers(headers: tuple[Header, ...]) -> None:
    """Raise Malformed where what follows the content is malformed."""
    for header in headers:
        if header not in _passed:
            _check_regular(header)


def _check_pseudo(pseudo: dict[bytes, bytes]) -> None:
    method = pseudo.get(b":method")
    if not method:
        raise Malformed(":method is missing")
    if method == b"CONNECT":
        if not pseudo.get(b":authority") or len(pseudo) != 2:
            raise Malformed("CONNECT has :method and :authority")
    elif not pseudo.get(b":scheme") or not pseudo.get(b":path"):
        raise Malformed(":scheme or :path is missing")


def _check_regular(header: Header) -> None:
    name, value = header
    _check_header(name, value)
    if name != b"content-length":
        _keep(_passed, header, len(name) + len(value))


def _keep(passed: set[T], one: T, size: int) -> None:
    if size <= HEADER_BYTES_KEPT_MAX:
        if len(passed) >= HEADERS_KEPT_MAX:
            passed.clear()
        passed.add(one)


def _check_header(name: bytes, value: bytes) -> None:
    if not _NAME.fullmatch(name):
        raise Malformed(f"{name[:64]!r} is no name of a header")
    if name in _OF_HTTP1 or (name == b"te" and value != b"trailers"):
        raise Malformed(f"{name!r} belongs to HTTP/1.1")
    _check_value(name, value)


def _check_value(name: bytes, value: bytes) -> None:
    if _BAD_VALUE.search(value):
        raise Malformed(f"the value of {name!r} has a forbidden character, or a space at its ends")


def _content_length(value: bytes, before: int) -> int:
    if not value.isdigit() or len(value) > 19 or before not in (NO_LENGTH, int(value)):
        raise Malformed("content-length is no number, or there are two")
    return int(value)
