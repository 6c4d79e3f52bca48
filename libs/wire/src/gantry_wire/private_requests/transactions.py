"""JSON bodies of transaction requests and replies (9020 to 9025). Times are milliseconds since 1970.

Inside a broker, the unique key (`key`) identifies a transaction, however many copies of its half there are. Outside, its id
(`transaction_id`) contains the broker too.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import field

from gantry_wire.bodies.json_body import Body

PAGE_MAX = 1000
CHECKS_MAX = 256
REASON_CHARS_MAX = 1024

TransactionState = Literal["open", "parked", "committed", "rolledBack"]
"""`parked`: too many checks had no result; the transaction waits for a manual decision."""
Decision = Literal["commit", "rollback"]

CHECKED_PROPERTY = "TRANSACTION_CHECK_TIMES"
BEGUN_PROPERTY = "__GANTRY_BEGUN"
"""On copies of a half: the store time of the first copy, in ms."""

_PLAIN_LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


class _Plain(Body, kw_only=True, rename="camel"):
    is_plain: ClassVar[bool] = True


class TransactionView(_Plain, kw_only=True, rename="camel"):
    """Reply of 9021 and 9024 from the broker; 9020 lists them. A decided transaction keeps the data of its half."""

    key: str
    broker: str = ""
    state: TransactionState
    topic: str
    queue_id: int = -1
    producer_group: str
    begun_ms: int
    """Store time of the first known copy of its half."""
    checks: int = 0
    """Number of checks sent to its producer."""
    offset: int = -1
    position: int = -1
    """Of the newest copy of its half, or of its parked record."""
    next_check_ms: int | None = None
    """Only in lists of open transactions."""
    changed: bool = False
    """In the reply of 9021: whether this request made the decision."""


class ListTransactions(_Plain, kw_only=True, rename="camel"):
    """9020, to the checker: list undecided transactions, oldest first. None matches any value."""

    topic: str | None = None
    producer_group: str | None = None
    broker: str | None = None
    state: Literal["open", "parked"] | None = None
    limit: int = 100


class TransactionsPage(_Plain, kw_only=True, rename="camel"):
    """Reply of 9020. This checker covers `brokers`; it has not yet read all halves of those in `incomplete`."""

    transactions: list[TransactionView] = field(default_factory=list[TransactionView])
    truncated: bool = False
    brokers: list[str] = field(default_factory=list[str])
    incomplete: list[str] = field(default_factory=list[str])


class DecideTransaction(_Plain, kw_only=True, rename="camel"):
    """9021, to the broker: commit or roll back. The first decision wins; repeating it changes nothing."""

    key: str
    decision: Decision
    by: str = ""
    """The author of a manual decision: a request id or a name."""
    reason: str = ""


class TakenCheck(_Plain, kw_only=True, rename="camel"):
    """One check of a transaction, by its number."""

    key: str
    broker: str
    attempt: int


class ReceiveChecks(_Plain, kw_only=True, rename="camel"):
    """9022, to the checker: get a producer group's transactions that are due for a check. Held up to `wait_ms` for the first."""

    producer_group: str
    max: int = 32
    wait_ms: int = 0
    topics: list[str] | None = None
    """The topics that the caller may decide, as far as known; None: all. Only their transactions are returned, and get a turn."""
    refused: list[str] = field(default_factory=list[str])
    """The topics that the caller may not decide, as far as known."""
    taken: list[TakenCheck] | None = None
    """None: the caller gets a transaction again until it is decided. Else it gets each check only while no caller has taken it; those in
    the list it takes, having passed them to a producer."""


class PendingCheck(_Plain, kw_only=True, rename="camel"):
    """One transaction that needs a decision. `record` is its half as stored in the log."""

    key: str
    broker: str
    attempt: int
    record: bytes


class ChecksPage(_Plain, kw_only=True, rename="camel"):
    """Reply of 9022. A transaction stays in the list until it is decided."""

    checks: list[PendingCheck] = field(default_factory=list[PendingCheck])
    brokers: list[str] = field(default_factory=list[str])
    undecided_topics: list[str] = field(default_factory=list[str])
    """Topics of waiting transactions that the request names neither as allowed nor as refused. They end a hold without `checks`."""


class FindProducer(_Plain, kw_only=True, rename="camel"):
    """9023, to a broker: whether a client of this producer group is connected."""

    producer_group: str


class ProducerFound(_Plain, kw_only=True, rename="camel"):
    """Reply of 9023."""

    channels: int


class AskState(_Plain, kw_only=True, rename="camel"):
    """9024, to the broker: get the state of a transaction."""

    key: str


class AskProducer(_Plain, kw_only=True, rename="camel"):
    """9025, to a broker with clients of the group: push CHECK_TRANSACTION_STATE (39) to one of them.

    `home` is the address of the broker that stores the half. The client replies to the broker that asked, which forwards the reply
    to `home`.
    """

    producer_group: str
    key: str
    broker: str
    home: str
    offset: int
    position: int
    message_id: str
    """Offset message id of the half."""
    message: bytes
    """The message in stored layout, with the topic and queue it was sent to."""


class ProducerAsked(_Plain, kw_only=True, rename="camel"):
    """Reply of 9025. `asked` is false if no client of the group is connected."""

    asked: bool


def transaction_id(broker: str, key: str) -> str:
    """Return the external id of a transaction: letters, digits and `. _ ~ -`. It is the same for all copies of the half."""
    return f"{_escaped(broker)}.{_escaped(key)}"


def split_transaction_id(text: str) -> tuple[str, str] | None:
    """Return the broker and unique key of an id, or None if it is invalid."""
    broker, dot, key = text.partition(".")
    if not (dot and broker and key) or "." in key:
        return None
    try:
        found = _plain(broker), _plain(key)
    except ValueError:
        return None
    return found if transaction_id(*found) == text else None


def _escaped(text: str) -> str:
    """Escape every other byte as ~ and two hexadecimal digits."""
    raw = text.encode()
    if _PLAIN_LETTERS.issuperset(raw):
        return text
    return "".join(chr(byte) if byte in _PLAIN_LETTERS else f"~{byte:02x}" for byte in raw)


def _plain(text: str) -> str:
    first, *parts = text.split("~")
    raw = first.encode()
    for part in parts:
        raw += bytes.fromhex(part[:2]) + part[2:].encode()
    return raw.decode()
