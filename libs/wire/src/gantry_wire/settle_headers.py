"""Typed headers and JSON bodies of claim and settle, 9001 to 9006 and 9040: how the owner of a system queue decides its items.

An *item* is one message of a system queue, named by (topic, queue id, offset). To *settle* it is to append the messages that result
from it, and never again. See docs/protocol.md, "Claim and settle".
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

import msgspec

from gantry_wire.errors import MalformedBody
from gantry_wire.header import Header, Int32, Int64

StructT = TypeVar("StructT", bound=msgspec.Struct)
Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Offset = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Instant = Annotated[int, msgspec.Meta(ge=0, le=2**62)]

HELD = "HELD"
"""`gantryCode` of a claim that another owner holds."""
FENCED = "FENCED"
"""`gantryCode` of a request whose epoch is not the one in force: claim again before anything else."""
SETTLE_ITEMS_MAX = 4096
"""Items of one request."""
SETTLE_AHEAD_MS_MAX = 1000
"""How long before its time the decision about an item may be asked for."""
SETTLE_OUTPUTS_MAX = 16
"""Messages that may result from one item."""
CLAIM_TTL_MS_MIN, CLAIM_TTL_MS_MAX = 500, 60_000


class SettleStatus:
    """What became of an item. The table of states is in docs/protocol.md."""

    SETTLED = "settled"
    """Decided by this request: its outputs are stored as durably as their topics promise."""
    ALREADY = "already"
    """Decided before, nothing was done. `outputs` and `outcome` tell of that decision when they are still remembered."""
    EARLY = "early"
    """Not due yet in store time (or, for an absolute instant, by the wall clock); nothing was done."""
    UNKNOWN_TOPIC = "unknownTopic"
    NOT_WRITABLE = "notWritable"
    """The topic of an output may not be written to, or has no write queue."""
    BAD_ITEM = "badItem"
    """No message lies at that offset and position, or an output cannot be made of it; `detail` says why."""
    REMOVED = "removed"
    """Retention has deleted the item's record."""
    NO_SPACE = "noSpace"
    """The disk is full; try again later."""


class ClaimHeader(Header, kw_only=True, rename="camel", gc=False):
    """9001: claim a queue for `owner`, or keep the claim. `address` is where others reach the owner."""

    topic: str
    queue_id: Int32
    owner: str
    address: str
    ttl_ms: Int32 = 3000
    group: str = ""
    """Whose cursor the answer tells; empty for the system queues."""


class ClaimReplyHeader(Header, kw_only=True, rename="camel", gc=False):
    """Reply of 9001."""

    epoch: Int64
    store_time_ms: Int64
    cursor: Int64
    """Lowest undecided offset."""
    max_offset: Int64


class ReleaseClaimHeader(Header, kw_only=True, rename="camel", gc=False):
    """9002."""

    topic: str
    queue_id: Int32
    epoch: Int64


class SettleHeader(Header, kw_only=True, rename="camel", gc=False):
    """9003. The body is a SettleBody, the answer a SettleReplyBody."""

    topic: str
    queue_id: Int32
    group: str = ""
    epoch: Int64


class SettledStateHeader(Header, kw_only=True, rename="camel", gc=False):
    """9004. The answer is a SettledStateBody."""

    topic: str
    queue_id: Int32
    group: str = ""
    from_offset: Int64 = msgspec.field(default=0, name="from")


class ClaimHolderHeader(Header, kw_only=True, rename="camel", gc=False):
    """9005."""

    topic: str
    queue_id: Int32


class ClaimHolderReplyHeader(Header, kw_only=True, rename="camel", gc=False):
    """Reply of 9005; all absent when nobody holds the claim."""

    held_by: str | None = None
    address: str | None = None
    until_ms: Int64 | None = None


class StoreTimeReplyHeader(Header, kw_only=True, rename="camel", gc=False):
    """Reply of 9006. `roll_below` above 0 asks owners to roll forward what lies below that log position: its segment must go."""

    store_time_ms: Int64
    wall_time_ms: Int64
    roll_below: Int64 = 0
    delay_queues: Int32 = 0
    """How many queues of SCHEDULE_TOPIC_XXXX somebody has to follow: one for each level, and more where the list of levels was longer."""


class MessageEventsHeader(Header, kw_only=True, rename="camel", gc=False):
    """9040: what the store knows of one message beside its record. The answer is a MessageEventsBody."""

    topic: str
    queue_id: Int32
    offset: Int64


class SettleOutput(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """One message that results from an item."""

    topic: str
    queue_id: Annotated[int, msgspec.Meta(ge=-1, le=2**31 - 1)]
    """-1: any. One that the topic has not (any more) is taken modulo its write queues."""
    body: Literal["item"] | None = "item"
    """`item`: the item's own body. None: `body_base64`."""
    body_base64: bytes | None = None
    set: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    """Properties to set, behind the kept ones."""
    drop: tuple[str, ...] = ()
    """Properties to leave out."""
    properties: Literal["item", "none"] = "item"
    """`none`: only those of `set`."""
    transaction: Literal["none", "commit"] = "none"
    """`commit`: the transaction bits of the system flag say commit, and the record names the item as its half."""
    reconsume_times: Count | None = None
    """None: the item's own."""


class SettleItem(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """A decision about one item: these messages result from it, or none."""

    offset: Offset
    position: Offset
    """Where its record lies in the log; must be what the queue says."""
    outputs: list[SettleOutput] = msgspec.field(default_factory=list[SettleOutput])
    outcome: str = ""
    """In a word, for those who ask later: `delivered`, `cancelled`, …"""
    force: bool = False
    """Also before it is due."""
    at_ms: Instant = 0
    """Store time to decide it at, if that lies ahead by no more than SETTLE_AHEAD_MS_MAX: until then the store keeps the request."""


class SettleBody(msgspec.Struct, rename="camel"):
    """Body of 9003."""

    items: Annotated[list[SettleItem], msgspec.Meta(max_length=SETTLE_ITEMS_MAX)]


class OutputPlace(msgspec.Struct, rename="camel", gc=False):
    """Where an output lies."""

    topic: str
    queue_id: int
    queue_offset: int
    position: int


class SettleResult(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """What became of one item, see SettleStatus."""

    offset: int
    status: str
    outputs: list[OutputPlace] = msgspec.field(default_factory=list[OutputPlace])
    outcome: str = ""
    detail: str = ""
    time_ms: int = 0
    """Store time at which that was known; given for items that were asked for ahead (`at_ms`)."""
    due_ms: int = 0
    """Of one that is `early`: when it is due, in ms of the clock that it waits for."""


class SettleReplyBody(msgspec.Struct, rename="camel"):
    """Reply of 9003: one result for each item, in the order of the request."""

    results: list[SettleResult]
    store_time_ms: int
    cursor: int = 0
    """Lowest undecided offset after this request."""


class SettledStateBody(msgspec.Struct, rename="camel"):
    """Reply of 9004."""

    cursor: int
    """Lowest undecided offset: everything below is decided."""
    max_offset: int
    store_time_ms: int
    settled: list[tuple[int, int]]
    """Decided offsets from `from` (at least the cursor) on, as ranges [first, end), ascending."""
    next: int | None = None
    """Ask again from here: there are more ranges than one answer holds."""


class MessageEvent(msgspec.Struct, rename="camel", omit_defaults=True):
    """One thing that happened to a message, or its state now."""

    kind: str
    time_ms: int | None = None
    group: str | None = None
    outcome: str | None = None
    outputs: list[OutputPlace] = msgspec.field(default_factory=list[OutputPlace])
    detail: dict[str, str] = msgspec.field(default_factory=dict[str, str])


class MessageEventsBody(msgspec.Struct, rename="camel"):
    """Reply of 9040, in no promised order."""

    events: list[MessageEvent]


def decode_json(data: bytes, kind: type[StructT]) -> StructT:
    """Return a body of ours; MalformedBody says what is wrong with it."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise MalformedBody(f"the body is no {kind.__name__}: {error}") from error
