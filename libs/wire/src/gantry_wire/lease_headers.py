"""Headers and bodies of receive and acknowledge (9030 … 9034), spoken between gateways and stores. Knows no lease.

9030 reply body: `runs` times RUN, then the records of all runs, one after the other, as they lie in the log.
9031 and 9032 request body: one ITEM per message. Their reply body: one byte of ItemStatus per item, in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

import msgspec

from gantry_wire.errors import MalformedBody
from gantry_wire.header import Header, Int32, Int64

RECEIVE_MESSAGES_MAX = 256
"""Most messages of one receive."""
ACK_ITEMS_MAX = 4096
"""Most items of one request to a store."""
INVISIBLE_MS_MAX = 12 * 3600 * 1000
"""Longest lease."""
WAIT_MS_MAX = 60_000
REASON_CHARS_MAX = 1024
ATTEMPT_MAX = 65_535
"""Highest number of an attempt that is told: its field has two bytes. Further ones are told as this."""
FILTER_CONFLICT = "FILTER_CONFLICT"
"""gantryCode of a receive whose filter is not the group's."""

_RUN = Struct(">HqH")
_ITEM = Struct(">BBiqqq")
PLACE = Struct(">Biqq")
"""The fields of a LeaseItem from `is_retry` to `lease`, packed."""


class ReceiveHeader(Header, kw_only=True, rename="camel", gc=False):
    """9030: lease messages of a topic's queues on this store for a group."""

    group: str
    topic: str
    max_messages: Int32
    invisible_ms: Int64
    expression_type: str | None = None
    """TAG or SQL92, with `expression`; without it the group's filter holds, everything where it has none."""
    expression: str | None = None
    change_filter: bool | None = None
    """Put this filter in place of the group's."""


class ReceiveReplyHeader(Header, kw_only=True, rename="camel", gc=False):
    """Answer of 9030; `until_ms` in wall time."""

    runs: Int32
    until_ms: Int64
    more: bool
    """Whether another receive may find more at once."""


class LeaseItemsHeader(Header, kw_only=True, rename="camel", gc=False):
    """9031 and 9032: what becomes of leased messages of one group and topic."""

    group: str
    topic: str
    reasons: str | None = None
    """9031: JSON object of item number to the reason of its nack."""
    invisible_ms: Int64 | None = None
    """9032: how long from now."""


class ExtendReplyHeader(Header, kw_only=True, rename="camel", gc=False):
    """Answer of 9032."""

    until_ms: Int64


class LeaseStateHeader(Header, kw_only=True, rename="camel", gc=False):
    """9033: what is leased, waits, is due or held of a group; body of the answer: JSON list of LeaseQueueState."""

    group: str
    topic: str | None = None


class WaitHeader(Header, kw_only=True, rename="camel", gc=False):
    """9034: answered when a receive may find something, at the latest after `wait_ms`; `wait_ms` 0 ends the wait with this id."""

    group: str
    topic: str
    wait_id: Int64
    wait_ms: Int64


class WaitReplyHeader(Header, kw_only=True, rename="camel", gc=False):
    """Answer of 9034."""

    ready: bool


class LeaseQueueState(msgspec.Struct, rename="camel"):
    """What a group has of one queue: counts of messages by what is true of them."""

    topic: str
    queue_id: int
    offset: int
    """The low-water mark: everything below is done."""
    leased: int
    waiting: int
    due: int
    held: int
    """Behind an earlier message of their key."""
    dead: int
    """On the way to the dead letters."""
    expression_type: str
    expression: str


class LeasedRun(NamedTuple):
    """Consecutive records of a reply that share a lease."""

    records: int
    lease: int
    attempt: int


class ItemKind(IntEnum):
    """What is asked for a message."""

    ACK = 1
    NACK = 2
    EXTEND = 3
    RELEASE = 4
    """It reached nobody: due again at once, and not counted."""


class ItemStatus(IntEnum):
    """What became of an item."""

    DONE = 1
    EXPIRED = 2
    INVALID = 3
    """No such queue or message here."""
    FAILED = 4
    """Not done; the lease stands as it did."""


class LeaseItem(NamedTuple):
    """One message of a request."""

    kind: int
    is_retry: int
    """1 for the group's retry topic."""
    queue_id: int
    offset: int
    lease: int
    delay_ms: int = 0


def pack_runs(runs: Sequence[LeasedRun]) -> bytes:
    """Return the head of a receive's reply body."""
    return b"".join([_RUN.pack(*run) for run in runs])


def unpack_runs(body: bytes | memoryview, count: int) -> tuple[list[LeasedRun], bytes | memoryview]:
    """Return the runs and the record bytes behind them. Raises MalformedBody."""
    end = count * _RUN.size
    if not 0 <= end <= len(body):
        raise MalformedBody(f"{count} runs do not fit into {len(body)} bytes")
    return [LeasedRun(*run) for run in _RUN.iter_unpack(body[:end])], body[end:]


def pack_items(items: Sequence[LeaseItem]) -> bytes:
    """Return the body of an acknowledgement or an extension."""
    return b"".join([_ITEM.pack(*item) for item in items])


def pack_places(kind: int, places: Sequence[bytes], delay_ms: int = 0) -> bytes:
    """Return what `pack_items` does for items of one kind and delay, of the packed fields between them (PLACE)."""
    before, behind = bytes((kind,)), delay_ms.to_bytes(8, signed=True)
    return before + (behind + before).join(places) + behind


def read_reasons(text: str | None) -> dict[int, str]:
    """Return the reasons of a request by item. Raises MalformedBody."""
    if not text:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[int, str])
    except msgspec.DecodeError as error:
        raise MalformedBody(f"reasons are no JSON object of item to text: {error}") from error


def unpack_items(body: bytes) -> Iterator[tuple[int, int, int, int, int, int]]:
    """Yield the fields of each LeaseItem. Raises MalformedBody."""
    size = len(body)
    if not size or size % _ITEM.size or size > ACK_ITEMS_MAX * _ITEM.size:
        raise MalformedBody(f"{size} bytes are not 1 to {ACK_ITEMS_MAX} items of {_ITEM.size}")
    return _ITEM.iter_unpack(body)
