"""What replicas say to each other about the log. The bytes of the log travel beside it.

A session belongs to one follower and one life of it: (life, number). The network may lose, repeat and reorder all of it.
"""

from dataclasses import dataclass
from typing import NamedTuple

from broker_store.replication.epochs import EpochTable


class Session(NamedTuple):
    """One attempt of a follower to copy from a leader."""

    life: str
    """The life of the follower's process."""
    number: int
    """Grows within a life."""


@dataclass(frozen=True, slots=True)
class Hello:
    """A follower asks the leader where their logs part."""

    session: Session
    group: str
    origin: str
    """Of the group, as its register says. Empty: its directory never belonged to a group."""
    table: EpochTable
    end: int
    """End of its log, durable or not."""
    version: int
    """The highest version that it knows or promised. 0: its directory never belonged to a group."""


@dataclass(frozen=True, slots=True)
class Welcome:
    """The leader says where the logs part, and what it leads."""

    session: Session
    epoch: int
    version: int
    common: int
    """The follower cuts its log there, and copies from there."""
    table: EpochTable
    sent_at: int
    """The leader's clock, in ms. The follower's answers carry it back."""
    first: int
    """Where the leader's log begins. A learner whose log parts from the leader's below that begins again there."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The receiver sends nothing to the follower: it does not lead, it knows less than the follower, or the follower has begun a newer attempt."""

    session: Session
    version: int


@dataclass(frozen=True, slots=True)
class Beat:
    """The leader is alive. The head of each shipment of log bytes has the same fields."""

    session: Session
    epoch: int
    version: int
    confirm: int | None
    sent_at: int
    first: int
    """Where the leader's log begins. A follower may delete what ends at or below that."""


@dataclass(frozen=True, slots=True)
class DurableEnd:
    """A follower acknowledges: its log is the leader's up to `durable`, and durable."""

    session: Session
    epoch: int
    """An epoch is one life of one leader: a report that comes late to another life counts for nothing."""
    version: int
    """The highest version of the leader that the follower has received since its hello."""
    durable: int
    end: int
    """End of what it has written. The leader ships from there."""
    sent_at: int
    """The newest `sent_at` of the leader that the follower has received since its hello."""
    is_fit: bool = True
    """False: its disk is full, so it would take no sends as a leader."""


@dataclass(frozen=True, slots=True)
class Resigned:
    """The leader has stopped: it grants nothing and takes no sends any more. A member need not wait for its silence."""

    session: Session
    epoch: int
    version: int
    successor: str
    """The member that should campaign now. The others look at the register."""


@dataclass(frozen=True, slots=True)
class Leads:
    """The sender leads since this version of the register: the receiver looks there."""

    session: Session
    version: int


@dataclass(frozen=True, slots=True)
class WantBytes:
    """A replica with a damaged record asks another one for its bytes of the log. The session is of this question alone."""

    session: Session
    position: int
    size: int


@dataclass(frozen=True, slots=True)
class HaveBytes:
    """The answer: confirmed bytes from the position on, as many as were asked for or fewer. None: it has none there."""

    session: Session
    position: int
    data: bytes


Message = Hello | Welcome | Refused | Beat | DurableEnd | Resigned | Leads
