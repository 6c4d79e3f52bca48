"""What the headers of a call say (gRPC over HTTP/2, "Requests")."""

import re
from typing import Final, NamedTuple

from gantry_h2.hpack.static_table import Header
from gantry_link.grpc.framing import GZIP
from gantry_link.grpc.status import BEGIN, GrpcStatus, trailers

CONTENT_TYPE: Final = b"application/grpc"
IDENTITY: Final = b"identity"

_TIMEOUT: Final = re.compile(rb"([0-9]{1,8})([HMSmun])")
_UNIT_SECONDS: Final = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}


class Head(NamedTuple):
    """The headers of a call, read."""

    headers: dict[bytes, bytes]
    path: str
    timeout: float | None
    """In seconds."""
    encoding: bytes
    """How messages are compressed: empty, or gzip."""
    refusal: tuple[Header, ...]
    """The whole answer to a call that is refused for its headers; empty for any other."""


def read_head(headers: tuple[Header, ...]) -> Head:
    """Return what the headers of a call say.

    Of a name that comes several times the last value counts, as in grpc-java: RocketMQ's Go client adds its metadata again each time that it
    repeats a call.
    """
    found = dict(headers)
    encoding = found.get(b"grpc-encoding", b"")
    timeout = found.get(b"grpc-timeout")
    seconds = None if timeout is None else read_timeout(timeout)
    refusal = _refusal(found, encoding, is_bad_timeout=timeout is not None and seconds is None)
    path = found.get(b":path", b"").decode("latin-1")
    return Head(found, path, seconds, GZIP if encoding == GZIP else b"", refusal)


def read_timeout(text: bytes) -> float | None:
    """Return the seconds of a grpc-timeout; None for one that is malformed."""
    match = _TIMEOUT.fullmatch(text)
    return None if match is None else int(match[1]) * _UNIT_SECONDS[match[2]]


def refused(status: GrpcStatus, message: str) -> tuple[Header, ...]:
    """Return the headers of an answer that has nothing but its status ("Trailers-Only")."""
    return BEGIN + trailers(status, message)


def _refusal(headers: dict[bytes, bytes], encoding: bytes, *, is_bad_timeout: bool) -> tuple[Header, ...]:
    if headers.get(b":method") != b"POST":
        return ((b":status", b"405"), (b"allow", b"POST"))
    if not _is_grpc(headers.get(b"content-type", b"")):
        return ((b":status", b"415"), (b"accept-post", CONTENT_TYPE))
    if b"te" not in headers:
        return refused(GrpcStatus.INTERNAL, "te: trailers is missing: a proxy in between drops trailers")
    if is_bad_timeout:
        return refused(GrpcStatus.INTERNAL, "grpc-timeout is malformed")
    if encoding not in (b"", IDENTITY, GZIP):
        name = encoding.decode("latin-1")
        return refused(
            GrpcStatus.UNIMPLEMENTED, f"grpc-encoding {name} is not supported: identity and gzip are"
        )
    return ()


def _is_grpc(content_type: bytes) -> bool:
    if content_type == CONTENT_TYPE:
        return True
    begin, rest = content_type[: len(CONTENT_TYPE)].lower(), content_type[len(CONTENT_TYPE) :]
    return begin == CONTENT_TYPE and rest[:1] in (b"+", b";")
