"""What goes into a replica's role and what comes out of it. Inputs are facts; outputs are orders, to be carried out in their sequence.

The shell around a role answers `Persist`, `CutLog`, `ReadRegister` and `WriteRegister` with an input. An answer may be late. A register operation
without an answer within a time of the shell's choice is `RegisterLost`: it may still happen.
"""

from dataclasses import dataclass, field
from enum import Enum

from broker_store.replication.epochs import EpochTable
from broker_store.replication.messages import Beat, Message, Session
from broker_store.replication.register.record import Registered


@dataclass(frozen=True, slots=True)
class Kept:
    """What a replica keeps on disk beside its log. Written whole, so that a crash leaves the old one or the new one."""

    fence: int = 0
    """It acknowledges nobody of an older version. Never goes down. 0: it never belonged to a group."""
    newest: Registered | None = None
    """The newest record of the register that it knows."""
    table: EpochTable = field(default_factory=EpochTable)
    begin: int = 0
    """The log begins there, or above where retention deleted more. What was below is confirmed."""
    is_void: bool = False
    """The log is of no use: the next start removes it, and everything derived from it, before it opens the directory (`copying.py`)."""


# Inputs


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed. At least every `beat_ms`."""


@dataclass(frozen=True, slots=True)
class Received:
    """A message of a peer."""

    peer: str
    message: Message


@dataclass(frozen=True, slots=True)
class ShipmentReceived:
    """Log bytes of the leader, from `position` to `end`; on `WriteShipment` the shell appends them."""

    peer: str
    head: Beat
    position: int
    end: int


@dataclass(frozen=True, slots=True)
class Resign:
    """The leader's store has stopped granting and takes no sends. Another member shall lead, `successor` if it can."""

    successor: str = ""


@dataclass(frozen=True, slots=True)
class Fitness:
    """Whether this replica is fit to lead: its disk has room for sends, and its log has lost nothing."""

    is_fit: bool


@dataclass(frozen=True, slots=True)
class Appended:
    """The leader's own sends moved the end of its log there."""

    end: int


@dataclass(frozen=True, slots=True)
class Synced:
    """The own log is durable up to there."""

    end: int


@dataclass(frozen=True, slots=True)
class Persisted:
    """The kept state with this number, or a later one, is durable."""

    number: int


@dataclass(frozen=True, slots=True)
class LogCut:
    """The log ends at `at`, durably."""

    at: int


@dataclass(frozen=True, slots=True)
class Removed:
    """Retention deleted the beginning of the own log: it begins at `first` now."""

    first: int


@dataclass(frozen=True, slots=True)
class RegisterRead:
    """The register's newest record, or an older one. None: it is empty, or was."""

    operation: int
    record: Registered | None


@dataclass(frozen=True, slots=True)
class RegisterWritten:
    """The register took the write."""

    operation: int


@dataclass(frozen=True, slots=True)
class RegisterRefused:
    """The register did not take the write: it has another version than expected. Perhaps it says which record."""

    operation: int
    newest: Registered | None


@dataclass(frozen=True, slots=True)
class RegisterLost:
    """No reply. A write may have happened, or happen later."""

    operation: int


RegisterAnswer = RegisterRead | RegisterWritten | RegisterRefused | RegisterLost
Input = (
    Tick
    | Resign
    | Fitness
    | Received
    | ShipmentReceived
    | Appended
    | Synced
    | Persisted
    | LogCut
    | Removed
    | RegisterAnswer
)


# Outputs


@dataclass(frozen=True, slots=True)
class Persist:
    """Make this durable, then answer `Persisted`. A later one replaces an earlier one."""

    number: int
    kept: Kept


@dataclass(frozen=True, slots=True)
class CutLog:
    """Cut the log at this position, make that durable, then answer `LogCut`. A `Synced` of before comes before it, or not at all."""

    at: int


@dataclass(frozen=True, slots=True)
class ReadRegister:
    """Read the newest record."""

    operation: int


@dataclass(frozen=True, slots=True)
class WriteRegister:
    """Write the record if the register still has the version before it."""

    operation: int
    record: Registered


@dataclass(frozen=True, slots=True)
class Send:
    """Send a message. It may get lost."""

    peer: str
    message: Message


@dataclass(frozen=True, slots=True)
class WriteShipment:
    """Append the bytes of the shipment that was passed in."""


@dataclass(frozen=True, slots=True)
class Ship:
    """Ship log bytes to this follower from this position. Replaces an earlier order for it."""

    peer: str
    session: Session
    position: int


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Everything below is confirmed: answer its sends, show it to readers."""

    up_to: int


@dataclass(frozen=True, slots=True)
class Show:
    """A follower's readers may see everything below."""

    up_to: int


@dataclass(frozen=True, slots=True)
class LeaderBegins:
    """The leader's log begins at `first`: a follower may delete what ends at or below that, is confirmed, and is behind its last checkpoint."""

    first: int


@dataclass(frozen=True, slots=True)
class BecomeLeader:
    """Finish recovery to the end, open the ports, register everywhere."""

    record: Registered
    start: int


@dataclass(frozen=True, slots=True)
class BecomeFollower:
    """Copy from this leader. `counted`: the set contains this replica."""

    record: Registered
    counted: bool


class EndReason(Enum):
    """Why a process may not continue."""

    DEPOSED = "another leader or epoch is in the register"
    FOREIGN_GROUP = "the register belongs to another group than this directory; a replica of this group starts with an empty one"
    REGISTER_WENT_BACK = "the register's epoch is lower than the one kept on disk; rebuild it from the replica with the highest version"
    CUT_BELOW_CONFIRM = "the leader has not what this replica knows as confirmed"
    BEGINS_AGAIN = "the leader has deleted what comes next for this replica, whose log begins again where the leader's begins"


@dataclass(frozen=True, slots=True)
class EndProcess:
    """End the process; a supervisor starts it again after `DEPOSED` and `BEGINS_AGAIN`, an operator after the others. Always the last output."""

    reason: EndReason


Output = (
    Persist | CutLog | ReadRegister | WriteRegister | Send | WriteShipment | Ship | Acknowledge | Show
    | LeaderBegins | BecomeLeader | BecomeFollower | EndProcess
)  # fmt: skip
