"""Typed headers and JSON bodies of claim and settle, 9001 to 9006 and 9040: the owner of a system queue decides its items.

An *item* is one message of a system queue, identified by (topic, queue id, offset). To *settle* an item is to append the messages
that result from it, exactly once. See docs/protocol.md, "Claim and settle".
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

import msgspec

from gantry_wire.errors import MalformedBody
from gantry_wire.headers.typed_header import Header, Int32, Int64

StructT = TypeVar("StructT", bound=msgspec.Struct)
Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Offset = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Instant = Annotated[int, msgspec.Meta(ge=0, le=2**62)]

HELD = "HELD"
"""`gantryCode` of a claim refused because another owner holds it."""
FENCED = "FENCED"
"""`gantryCode` of a request with an outdated epoch. The owner must claim again first."""
SETTLE_ITEMS_MAX = 4096
"""Items per request."""
SETTLE_AHEAD_MS_MAX = 1000
"""How long before its due time an item may be settled."""
SETTLE_OUTPUTS_MAX = 16
"""Maximum number of messages that result from one item."""
CLAIM_TTL_MS_MIN, CLAIM_TTL_MS_MAX = 500, 60_000
CLAIM_QUEUES_MAX = 2048
"""Queues per request: more than a scheduler claims of a store with the most delay levels."""


class SettleStatus:
    """Result of settling an item. docs/protocol.md has the table of states."""

    SETTLED = "settled"
    """Decided by this request. Its outputs are stored with the durability of their topics."""
    ALREADY = "already"
    """Decided before; nothing was done. `outputs` and `outcome` describe that decision if the store still has them."""
    EARLY = "early"
    """Not due yet by store time, or by the wall clock for an absolute time; nothing was done."""
    UNKNOWN_TOPIC = "unknownTopic"
    NOT_WRITABLE = "notWritable"
    """The topic of an output has no write permission or no write queue."""
    BAD_ITEM = "badItem"
    """There is no message at that offset and position, or an output cannot be built from it. `detail` has the reason."""
    REMOVED = "removed"
    """Retention deleted the item's record."""
    NO_SPACE = "noSpace"
    """The disk is full; try again later."""


class ClaimHeader(Header, kw_only=True, rename="camel", gc=False):
    """9001: claim queues for `owner`, or renew its claims: all of them or none. The body is a ClaimBody, the reply a ClaimReplyBody.

    Other services reach the owner at `address`.
    """

    owner: str
    address: str
    ttl_ms: Int32 = 3000
    group: str = ""
    """The group whose cursors the reply contains; empty for the system queues."""


class ReleaseClaimHeader(Header, kw_only=True, rename="camel", gc=False):
    """9002."""

    topic: str
    queue_id: Int32
    epoch: Int64


class SettleHeader(Header, kw_only=True, rename="camel", gc=False):
    """9003. The body is a SettleBody, the reply a SettleReplyBody."""

    topic: str
    queue_id: Int32
    group: str = ""
    epoch: Int64


class SettledStateHeader(Header, kw_only=True, rename="camel", gc=False):
    """9004. The reply is a SettledStateBody."""

    topic: str
    queue_id: Int32
    group: str = ""
    from_offset: Int64 = msgspec.field(default=0, name="from")


class ClaimHolderHeader(Header, kw_only=True, rename="camel", gc=False):
    """9005."""

    topic: str
    queue_id: Int32


class ClaimHolderReplyHeader(Header, kw_only=True, rename="camel", gc=False):
    """Reply of 9005. All fields are absent if the queue is unclaimed."""

    held_by: str | None = None
    address: str | None = None
    until_ms: Int64 | None = None


class StoreTimeReplyHeader(Header, kw_only=True, rename="camel", gc=False):
    """Reply of 9006. `roll_below` above 0 asks owners to roll forward the items below that log position: retention must delete their segment."""

    store_time_ms: Int64
    wall_time_ms: Int64
    roll_below: Int64 = 0
    delay_queues: Int32 = 0
    """Number of SCHEDULE_TOPIC_XXXX queues to follow: one per delay level, more if the list of levels was longer before."""


class MessageEventsHeader(Header, kw_only=True, rename="camel", gc=False):
    """9040: the events of one message. The reply is a MessageEventsBody."""

    topic: str
    queue_id: Int32
    offset: Int64


class ClaimQueue(msgspec.Struct, rename="camel", gc=False):
    """A queue to claim."""

    topic: str
    queue_id: int


class ClaimBody(msgspec.Struct, rename="camel"):
    """Body of 9001: 1 to CLAIM_QUEUES_MAX queues."""

    queues: list[ClaimQueue]


class GrantedClaim(msgspec.Struct, rename="camel", gc=False):
    """A claim that is granted or renewed."""

    epoch: int
    cursor: int
    """Lowest undecided offset."""
    max_offset: int


class ClaimReplyBody(msgspec.Struct, rename="camel"):
    """Reply of 9001: one claim per queue, in the order of the request."""

    claims: list[GrantedClaim]
    store_time_ms: int


class SettleOutput(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """One message that results from an item."""

    topic: str
    queue_id: Annotated[int, msgspec.Meta(ge=-1, le=2**31 - 1)]
    """-1 for any queue. An id beyond the topic's write queues is taken modulo their number."""
    body: Literal["item"] | None = "item"
    """`item` for the item's own body; None for `body_base64`."""
    body_base64: bytes | None = None
    set: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    """Properties to set, after the kept ones."""
    drop: tuple[str, ...] = ()
    """Properties to drop."""
    properties: Literal["item", "none"] = "item"
    """`item` keeps the item's properties; `none` uses only those in `set`."""
    transaction: Literal["none", "commit"] = "none"
    """`commit` sets the transaction bits of the system flag to commit and the prepared position to the item's."""
    reconsume_times: Count | None = None
    """None for the item's own."""


class SettleItem(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """A decision about one item. The outputs may be empty."""

    offset: Offset
    position: Offset
    """Position of its record in the log. Must equal the position in the queue."""
    outputs: list[SettleOutput] = msgspec.field(default_factory=list[SettleOutput])
    outcome: str = ""
    """The outcome for later queries: `delivered`, `cancelled`, …"""
    force: bool = False
    """Settle the item even before it is due."""
    at_ms: Instant = 0
    """Store time at which to settle it, at most SETTLE_AHEAD_MS_MAX ahead. The store holds the request until then."""


class SettleBody(msgspec.Struct, rename="camel"):
    """Body of 9003."""

    items: Annotated[list[SettleItem], msgspec.Meta(max_length=SETTLE_ITEMS_MAX)]


class OutputPlace(msgspec.Struct, rename="camel", gc=False):
    """Position of an output."""

    topic: str
    queue_id: int
    queue_offset: int
    position: int


class SettleResult(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """The result of one item, see SettleStatus."""

    offset: int
    status: str
    outputs: list[OutputPlace] = msgspec.field(default_factory=list[OutputPlace])
    outcome: str = ""
    detail: str = ""
    time_ms: int = 0
    """Store time of the result, for items requested ahead with `at_ms`."""
    due_ms: int = 0
    """For an `early` item: its due time, in ms of the clock that it waits for."""


class SettleReplyBody(msgspec.Struct, rename="camel"):
    """Reply of 9003: one result per item, in the order of the request."""

    results: list[SettleResult]
    store_time_ms: int
    cursor: int = 0
    """Lowest undecided offset after this request."""


class SettledStateBody(msgspec.Struct, rename="camel"):
    """Reply of 9004."""

    cursor: int
    """Lowest undecided offset: all items below are decided."""
    max_offset: int
    store_time_ms: int
    settled: list[tuple[int, int]]
    """Decided offsets from `from`, or from the cursor if higher, as ascending ranges [first, end)."""
    next: int | None = None
    """Where to continue if the ranges exceed one reply."""


class MessageEvent(msgspec.Struct, rename="camel", omit_defaults=True):
    """One event of a message, or its current state."""

    kind: str
    time_ms: int | None = None
    group: str | None = None
    outcome: str | None = None
    outputs: list[OutputPlace] = msgspec.field(default_factory=list[OutputPlace])
    detail: dict[str, str] = msgspec.field(default_factory=dict[str, str])


class MessageEventsBody(msgspec.Struct, rename="camel"):
    """Reply of 9040, in unspecified order."""

    events: list[MessageEvent]


def decode_json(data: bytes, kind: type[StructT]) -> StructT:
    """Return one of our own bodies. Raises MalformedBody with the reason."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise MalformedBody(f"the body is not a valid {kind.__name__}: {error}") from error
