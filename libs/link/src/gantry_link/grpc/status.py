"""The status of a call: its codes, and the trailers that carry it (gRPC over HTTP/2, "Responses")."""

from enum import IntEnum
from functools import lru_cache
from typing import Final
from urllib.parse import quote

from gantry_h2.hpack.static_table import Header

MESSAGE_CHARS_MAX: Final = 1000
"""A longer message is cut: clients accept some 8 KiB of headers, and each character may take nine bytes."""
_PLAIN: Final = " !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"
"""Printable ASCII but for letters, digits and the percent sign: what stays as it is."""

BEGIN: Final[tuple[Header, ...]] = (
    (b":status", b"200"),
    (b"content-type", b"application/grpc"),
    (b"grpc-accept-encoding", b"identity,gzip"),
)
"""The headers of every answer."""
OK: Final[tuple[Header, ...]] = ((b"grpc-status", b"0"),)
"""The trailers of a call that succeeded."""


class GrpcStatus(IntEnum):
    """The codes of gRPC."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class GrpcError(Exception):
    """A call ends with this status. The client sees the message."""

    def __init__(self, status: GrpcStatus, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


@lru_cache(64)
def trailers(status: GrpcStatus, message: str) -> tuple[Header, ...]:
    """Return the trailers with a status other than OK."""
    text = quote(message[:MESSAGE_CHARS_MAX].strip(), safe=_PLAIN, errors="replace")
    return ((b"grpc-status", b"%d" % status), (b"grpc-message", text.encode()))
