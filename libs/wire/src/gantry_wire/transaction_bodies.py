"""What is asked about transactions (requests 9020 to 9025), and the answers. JSON; times are milliseconds since 1970.

Inside a broker a transaction is named by its unique key (`key`), whatever copies of its half were written. Outside it has an id
that names the broker too: `transaction_id`.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import field

from gantry_wire.body import Body

PAGE_MAX = 1000
CHECKS_MAX = 256
REASON_CHARS_MAX = 1024

TransactionState = Literal["open", "parked", "committed", "rolledBack"]
"""`parked`: its producer was asked in vain too often; it waits for somebody to decide it by hand."""
Decision = Literal["commit", "rollback"]

CHECKED_PROPERTY = "TRANSACTION_CHECK_TIMES"
BEGUN_PROPERTY = "__GANTRY_BEGUN"
"""On copies of a half: store time of the first one, in ms."""

_PLAIN_LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


class _Plain(Body, kw_only=True, rename="camel"):
    is_plain: ClassVar[bool] = True


class TransactionView(_Plain, kw_only=True, rename="camel"):
    """9021 and 9024, answered by the broker; 9020 lists them. A decided one keeps what its half says."""

    key: str
    broker: str = ""
    state: TransactionState
    topic: str
    queue_id: int = -1
    producer_group: str
    begun_ms: int
    """Store time of the first copy of its half that is known."""
    checks: int = 0
    """How often its producer was asked."""
    offset: int = -1
    position: int = -1
    """Of the newest copy of its half, or of where it is parked."""
    next_check_ms: int | None = None
    """Only in lists of open ones."""
    changed: bool = False
    """Of 9021: this request made the decision."""


class ListTransactions(_Plain, kw_only=True, rename="camel"):
    """9020, to the checker: undecided transactions, the oldest first. What is None does not narrow."""

    topic: str | None = None
    producer_group: str | None = None
    broker: str | None = None
    state: Literal["open", "parked"] | None = None
    limit: int = 100


class TransactionsPage(_Plain, kw_only=True, rename="camel"):
    """9020, answered. `brokers` are those this checker answers for, `incomplete` those it does not know whole yet."""

    transactions: list[TransactionView] = field(default_factory=list[TransactionView])
    truncated: bool = False
    brokers: list[str] = field(default_factory=list[str])
    incomplete: list[str] = field(default_factory=list[str])


class DecideTransaction(_Plain, kw_only=True, rename="camel"):
    """9021, to the broker: commit or roll back. The first decision wins; the same one again changes nothing."""

    key: str
    decision: Decision
    by: str = ""
    """Who decides, where somebody does it by hand: a request id, a name."""
    reason: str = ""


class ReceiveChecks(_Plain, kw_only=True, rename="camel"):
    """9022, to the checker: transactions of a producer group that are due to be decided; held up to `wait_ms` for one."""

    producer_group: str
    max: int = 32
    wait_ms: int = 0


class PendingCheck(_Plain, kw_only=True, rename="camel"):
    """One transaction somebody has to decide. `record` is its half as it lies in the log."""

    key: str
    broker: str
    attempt: int
    record: bytes


class ChecksPage(_Plain, kw_only=True, rename="camel"):
    """9022, answered. What is listed stays listed until it is decided."""

    checks: list[PendingCheck] = field(default_factory=list[PendingCheck])
    brokers: list[str] = field(default_factory=list[str])


class FindProducer(_Plain, kw_only=True, rename="camel"):
    """9023, to a broker: whether a client of this producer group is connected."""

    producer_group: str


class ProducerFound(_Plain, kw_only=True, rename="camel"):
    """9023, answered."""

    channels: int


class AskState(_Plain, kw_only=True, rename="camel"):
    """9024, to the broker: what became of a transaction."""

    key: str


class AskProducer(_Plain, kw_only=True, rename="camel"):
    """9025, to a broker with a client of the group: push CHECK_TRANSACTION_STATE (39) to one of them.

    `home` is the address of the broker that keeps the half: the client answers where it was asked, and that is passed on.
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
    """9025, answered; `asked` false: no client of the group is connected here."""

    asked: bool


def transaction_id(broker: str, key: str) -> str:
    """Return the id of a transaction outside its broker: letters, digits and `. _ ~ -`, the same whatever copies there are."""
    return f"{_escaped(broker)}.{_escaped(key)}"


def split_transaction_id(text: str) -> tuple[str, str] | None:
    """Return broker and unique key of an id; None when it is none."""
    broker, dot, key = text.partition(".")
    if not (dot and broker and key) or "." in key:
        return None
    try:
        found = _plain(broker), _plain(key)
    except ValueError:
        return None
    return found if transaction_id(*found) == text else None


def _escaped(text: str) -> str:
    """Write every other byte as ~ and two hexadecimal digits."""
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
