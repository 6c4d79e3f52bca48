"""Bodies of the transaction calls, as msgspec Structs: decoder, encoder and OpenAPI come from them."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from gantry_wire.transaction_bodies import CHECKS_MAX, REASON_CHARS_MAX
from gateway.messages.schemas import MessageIn, MessageOut
from gateway.requests.fields import Body, GroupText

WAIT_SECONDS_MAX = 30
IMMUNITY_SECONDS_MAX = 24 * 3600


class BeginRequest(Body):
    """A message that is delivered when its transaction is committed."""

    producer_group: Annotated[GroupText, Meta(description="Who is asked about it when no decision comes.")]
    message: MessageIn
    check_after_seconds: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=IMMUNITY_SECONDS_MAX,
                description="Leave its producer alone for so long before the first check; at least 6 s count.",
            ),
        ]
        | None
    ) = None


class TransactionBegun(Struct, rename="camel", omit_defaults=True):
    """A transaction that waits for its decision."""

    transaction_id: str
    message_id: str
    broker: str
    durability: Literal["fsync", "written"]
    duplicate: bool = False


class DecideRequest(Body):
    """What may be said with a decision."""

    reason: (
        Annotated[
            str,
            Meta(
                max_length=REASON_CHARS_MAX,
                description="Why, where somebody decides by hand; kept in the audit record.",
            ),
        ]
        | None
    ) = None


class TransactionDecided(Struct, rename="camel"):
    """What a transaction is now."""

    status: Literal["committed", "rolledBack"]
    transaction_id: str
    topic: str
    producer_group: str


class TransactionShown(Struct, rename="camel"):
    """One transaction. `parked`: asked about in vain too often, it waits to be decided by hand."""

    transaction_id: str
    state: Literal["open", "parked", "committed", "rolledBack"]
    topic: str
    producer_group: str
    message_id: str
    broker: str
    begun_timestamp: str
    age_ms: int
    checks: int
    next_check_at: str | None = None


class TransactionsReply(Struct, rename="camel"):
    """Undecided transactions, the oldest first; those of the brokers in `missing` cannot be asked for at the moment."""

    transactions: list[TransactionShown]
    truncated: bool
    missing: list[str]


class ReceiveChecksRequest(Body):
    """How many checks, and how long to wait for one."""

    max_checks: Annotated[int, Meta(ge=1, le=CHECKS_MAX)] = 32
    wait_seconds: Annotated[float, Meta(ge=0, le=WAIT_SECONDS_MAX)] = 0


class CheckOut(Struct, rename="camel"):
    """A transaction whose producer is asked what became of it."""

    transaction_id: str
    message: MessageOut
    attempt: int


class ChecksReply(Struct, rename="camel"):
    """What is to be decided; each is listed again until it is."""

    checks: list[CheckOut]
