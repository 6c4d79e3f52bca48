"""Bodies of the transaction calls as msgspec Structs, for the decoder, the encoder and the OpenAPI."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from gantry_wire.private_requests.transactions import CHECKS_MAX, REASON_CHARS_MAX
from gateway.messages.schemas import MessageIn, MessageOut
from gateway.requests.fields import Body, GroupText

WAIT_SECONDS_MAX = 30
IMMUNITY_SECONDS_MAX = 24 * 3600


class BeginRequest(Body):
    """A message that is delivered when its transaction is committed."""

    producer_group: Annotated[
        GroupText, Meta(description="Group whose producers decide it if no decision arrives.")
    ]
    message: MessageIn
    check_after_seconds: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=IMMUNITY_SECONDS_MAX,
                description="Delay before the first check; at least 6 s.",
            ),
        ]
        | None
    ) = None


class TransactionBegun(Struct, rename="camel", omit_defaults=True):
    """An undecided transaction."""

    transaction_id: str
    message_id: str
    broker: str
    durability: Literal["fsync", "written"]
    duplicate: bool = False


class DecideRequest(Body):
    """The optional fields of a decision."""

    reason: (
        Annotated[
            str,
            Meta(
                max_length=REASON_CHARS_MAX,
                description="Reason of a manual decision; kept in the audit record.",
            ),
        ]
        | None
    ) = None


class TransactionDecided(Struct, rename="camel"):
    """The state of a transaction."""

    status: Literal["committed", "rolledBack"]
    transaction_id: str
    topic: str
    producer_group: str


class TransactionShown(Struct, rename="camel"):
    """One transaction. `parked`: unanswered after the maximum number of checks; an operator has to decide it."""

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
    """Undecided transactions, the oldest first, without those of the brokers in `missing`."""

    transactions: list[TransactionShown]
    truncated: bool
    missing: list[str]


class ReceiveChecksRequest(Body):
    """Maximum number of checks to receive, and how long to wait for one."""

    max_checks: Annotated[int, Meta(ge=1, le=CHECKS_MAX)] = 32
    wait_seconds: Annotated[float, Meta(ge=0, le=WAIT_SECONDS_MAX)] = 0


class CheckOut(Struct, rename="camel"):
    """A transaction that its producer has to decide."""

    transaction_id: str
    message: MessageOut
    attempt: int


class ChecksReply(Struct, rename="camel"):
    """Transactions to decide; each is returned again until it is decided."""

    checks: list[CheckOut]
