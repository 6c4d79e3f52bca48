"""Headers and bodies of receive and acknowledge (9030 … 9034), between gateways and stores. Layout only: no lease logic.

9030 reply body: `runs` RUN structs, then the records of all runs, consecutively, as stored in the log.
9031 and 9032 request body: one ITEM per message. Reply body: one ItemStatus byte per item, in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

import msgspec

from gantry_wire.errors import MalformedBody
from gantry_wire.headers.typed_header import Header, Int32, Int64

RECEIVE_MESSAGES_MAX = 256
"""Maximum number of messages per receive."""
ACK_ITEMS_MAX = 4096
"""Maximum number of items per request to a store."""
INVISIBLE_MS_MAX = 12 * 3600 * 1000
"""Longest lease."""
WAIT_MS_MAX = 60_000
REASON_CHARS_MAX = 1024
ATTEMPT_MAX = 65_535
"""Highest reported attempt number: its field has two bytes. Later attempts report this number."""
FILTER_CONFLICT = "FILTER_CONFLICT"
"""gantryCode of a receive whose filter differs from the group's."""
EARLIEST, LATEST = "earliest", "latest"
"""Where a new group begins in a queue (`start` of a receive): at its first message, or where RocketMQ's new groups begin."""

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
    """TAG or SQL92, for `expression`. If absent, the group's filter applies; a group without a filter receives everything."""
    expression: str | None = None
    change_filter: bool | None = None
    """Replace the group's filter with this one."""
    start: str | None = None
    """EARLIEST or LATEST: where a group begins that has neither an offset nor a configured start. If absent, at the first message."""
    attempt_id: str | None = None
    """Repeated with the receive whose answer was lost: while its leases are valid, the same messages under the same lease."""


class ReceiveReplyHeader(Header, kw_only=True, rename="camel", gc=False):
    """Reply of 9030. `until_ms` is wall time."""

    runs: Int32
    until_ms: Int64
    more: bool
    """Whether another receive may find more messages at once."""


class LeaseItemsHeader(Header, kw_only=True, rename="camel", gc=False):
    """9031 and 9032: acknowledge leased messages of one group and topic, or extend their leases."""

    group: str
    topic: str
    reasons: str | None = None
    """9031: JSON object from item number to nack reason."""
    invisible_ms: Int64 | None = None
    """9032: new invisible time, from now."""


class ExtendReplyHeader(Header, kw_only=True, rename="camel", gc=False):
    """Answer of 9032."""

    until_ms: Int64


class LeaseStateHeader(Header, kw_only=True, rename="camel", gc=False):
    """9033: the lease state of a group. Reply body: JSON list of LeaseQueueState."""

    group: str
    topic: str | None = None


class WaitHeader(Header, kw_only=True, rename="camel", gc=False):
    """9034: wait until a receive may find something, at most `wait_ms`. `wait_ms` 0 ends the wait with this id."""

    group: str
    topic: str
    wait_id: Int64
    wait_ms: Int64


class WaitReplyHeader(Header, kw_only=True, rename="camel", gc=False):
    """Answer of 9034."""

    ready: bool


class LeaseQueueState(msgspec.Struct, rename="camel"):
    """A group's message counts in one queue, by state."""

    topic: str
    queue_id: int
    offset: int
    """The low-water mark: everything below is done."""
    leased: int
    waiting: int
    due: int
    held: int
    """Blocked by an earlier message with the same key."""
    dead: int
    """Being moved to the dead letter queue."""
    expression_type: str
    expression: str


class LeasedRun(NamedTuple):
    """Consecutive records of a reply that share a lease."""

    records: int
    lease: int
    attempt: int


class ItemKind(IntEnum):
    """The action requested for a message."""

    ACK = 1
    NACK = 2
    EXTEND = 3
    RELEASE = 4
    """The message reached no consumer: it is due again at once and the attempt does not count."""
    DEAD = 5
    """Move the message to the group's dead letters now."""


class ItemStatus(IntEnum):
    """The result of an item."""

    DONE = 1
    EXPIRED = 2
    INVALID = 3
    """The store has no such queue or message."""
    FAILED = 4
    """Not done; the lease is unchanged."""


class LeaseItem(NamedTuple):
    """One message of a request."""

    kind: int
    is_retry: int
    """1 if the message is in the group's retry topic."""
    queue_id: int
    offset: int
    lease: int
    delay_ms: int = 0


def pack_runs(runs: Sequence[LeasedRun]) -> bytes:
    """Return the RUN structs at the start of a receive's reply body."""
    return b"".join([_RUN.pack(*run) for run in runs])


def unpack_runs(body: bytes | memoryview, count: int) -> tuple[list[LeasedRun], bytes | memoryview]:
    """Return the runs and the record bytes after them. Raises MalformedBody."""
    end = count * _RUN.size
    if not 0 <= end <= len(body):
        raise MalformedBody(f"{count} runs do not fit in {len(body)} bytes")
    return [LeasedRun(*run) for run in _RUN.iter_unpack(body[:end])], body[end:]


def pack_items(items: Sequence[LeaseItem]) -> bytes:
    """Return the body of an acknowledgement or an extension."""
    return b"".join([_ITEM.pack(*item) for item in items])


def pack_places(kind: int, places: Sequence[bytes], delay_ms: int = 0) -> bytes:
    """Pack as `pack_items` does, for items of one kind and delay. `places` are the fields between, packed as PLACE."""
    before, after = bytes((kind,)), delay_ms.to_bytes(8, signed=True)
    return before + (after + before).join(places) + after


def read_reasons(text: str | None) -> dict[int, str]:
    """Return the reasons of a request by item. Raises MalformedBody."""
    if not text:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[int, str])
    except msgspec.DecodeError as error:
        raise MalformedBody(f"the reasons are not a JSON object from item to text: {error}") from error


def unpack_items(body: bytes) -> Iterator[tuple[int, int, int, int, int, int]]:
    """Yield the fields of each LeaseItem. Raises MalformedBody."""
    size = len(body)
    if not size or size % _ITEM.size or size > ACK_ITEMS_MAX * _ITEM.size:
        raise MalformedBody(f"{size} bytes are not 1 to {ACK_ITEMS_MAX} items of {_ITEM.size}")
    return _ITEM.iter_unpack(body)
