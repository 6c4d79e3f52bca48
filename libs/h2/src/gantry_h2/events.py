"""What a connection reports."""

from typing import NamedTuple

from gantry_h2.errors import ErrorCode
from gantry_h2.hpack.static_table import Header


class Request(NamedTuple):
    """A call begins. The headers are checked (RFC 9113, 8.3.1)."""

    stream: int
    headers: tuple[Header, ...]
    is_end: bool
    """Nothing follows."""


class Data(NamedTuple):
    """A part of a call's content. Give `size` back with `Connection.consumed` when it was used."""

    stream: int
    data: bytes
    size: int
    is_end: bool


class Trailers(NamedTuple):
    """A call's content ends, with headers behind it."""

    stream: int
    headers: tuple[Header, ...]


class Reset(NamedTuple):
    """A call is over before it was answered whole: the client cancelled it, or broke a rule. What is sent to it is dropped."""

    stream: int
    code: int


class Sent(NamedTuple):
    """All that was given to a stream has left. It was waiting for the client's windows."""

    stream: int


class Ended(NamedTuple):
    """The connection is over: write what there is to send, and close it."""

    code: ErrorCode
    reason: str


Event = Request | Data | Trailers | Reset | Sent | Ended
