"""What all parts of a role share: what the replica knows and keeps, its state, and the orders of the current step."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from broker_store.replication.messages import Message
from broker_store.replication.states import MAY, NEXT, Permissions, ReplicaState
from broker_store.replication.steps import EndProcess, EndReason, Kept, Output, Persist, Send


@dataclass(frozen=True, slots=True)
class RoleSettings:
    """What all replicas of a group agree on, but the name and `bootstrap`."""

    name: str
    """Belongs to one directory."""
    group: str
    min_in_sync: int
    lease_ms: int = 1000
    grace_ms: int = 1500
    """The rates of two machines' clocks may differ by the factor grace / lease."""
    beat_ms: int = 250
    look_ms: int = 2000
    """A replica reads the register that often when nothing happens."""
    bootstrap: bool = False
    """Make the first record of an empty register."""
    boots: int = 0
    """How often this replica's directory was opened: a leader's boot count is higher than that of any leader before, and higher than this."""

    def __post_init__(self) -> None:
        assert 0 < self.beat_ms < self.lease_ms < self.grace_ms
        assert self.min_in_sync > 0


class Replica:
    """One life of a replica. Its parts read these fields; each field says which part changes it."""

    def __init__(
        self,
        settings: RoleSettings,
        kept: Kept,
        first: int,
        end: int,
        confirm: int,
        life: str,
        now: int,
    ) -> None:
        """`first`, `end`: of the log. `life`: unlike that of any other life of any replica, of the characters that a nonce of the register may have."""
        assert not kept.is_void
        assert kept.begin <= first <= end
        self.settings = settings
        self.kept = replace(kept, table=kept.table.until(end))
        """What is durable beside the log, or on its way there. Changed by `persist` and `log_cut`."""
        self.end = self.durable = end
        """Ends of the log: written, durable. Changed by `grew`, `synced` and `log_cut`."""
        self.first = first
        """Where the log begins. Changed by `removed`."""
        self.confirm = max(confirm, first)
        """Everything below is known as confirmed: what was deleted, too. Changed by `confirmed`."""
        self.is_fit = True
        """Whether it is fit to lead: its disk has room for sends, and its log has lost nothing. Changed by the role."""
        self.life = life
        self.now = now
        self.state = ReplicaState.LEARNER
        self._out: list[Output] = []
        self._names = 0
        self._persisting = 0
        self._then: tuple[int, Callable[[], None]] | None = None

    @property
    def version(self) -> int:
        """The newest version of the register that it knows."""
        return self.kept.newest.version if self.kept.newest else 0

    @property
    def may(self) -> Permissions:
        """What its state allows."""
        return MAY[self.state]

    def begin_step(self, now: int) -> None:
        """Begin a step at this time."""
        assert now >= self.now
        self.now, self._out = now, []

    def orders(self) -> list[Output]:
        """Return the orders of this step."""
        return self._out

    def emit(self, output: Output) -> None:
        """Order something."""
        self._out.append(output)

    def send(self, peer: str, message: Message) -> None:
        """Send a message."""
        self.emit(Send(peer, message))

    def new_number(self) -> int:
        """Return a number that this life has not used."""
        self._names += 1
        return self._names

    def new_nonce(self) -> str:
        """Return a nonce that no life of any replica has used."""
        return f"{self.life}-{self.new_number()}"

    def become(self, state: ReplicaState) -> None:
        """Change the state."""
        assert state in NEXT[self.state], f"{self.state} to {state}"
        self.state = state

    def end_process(self, reason: EndReason) -> None:
        """Order the end of the process, and nothing after it."""
        self.become(ReplicaState.DEPOSED)
        self.emit(EndProcess(reason))

    def end_process_after(self, kept: Kept, reason: EndReason) -> None:
        """Do nothing from now on but make this durable, and order the end of the process."""
        self.become(ReplicaState.DEPOSED)
        self.persist(kept, lambda: self.emit(EndProcess(reason)))

    def persist(self, kept: Kept, then: Callable[[], None] | None = None) -> None:
        """Make this durable, and do `then` afterwards. Replaces what an earlier call does afterwards."""
        self._persisting += 1
        self.kept = kept
        self.emit(Persist(self._persisting, kept))
        if then is not None:
            self._then = (self._persisting, then)

    def persisted(self, number: int) -> None:
        """Do what waited for this number."""
        if self._then is not None and number >= self._then[0]:
            (_, then), self._then = self._then, None
            then()

    def forget_then(self) -> None:
        """Do nothing when what is being persisted is durable."""
        self._then = None

    def grew(self, end: int) -> None:
        """Take a new end of the written log."""
        self.end = end

    def synced(self, end: int) -> None:
        """Take a durable end."""
        self.durable = max(self.durable, min(end, self.end))

    def log_cut(self, at: int) -> None:
        """Take the end of a log that was cut. The table of the shorter log has no epochs beyond it."""
        self.end, self.durable = at, min(at, self.durable)
        self.kept = replace(self.kept, table=self.kept.table.until(at))

    def removed(self, first: int) -> None:
        """Take a later beginning of the log."""
        assert self.first <= first <= self.confirm
        self.first = first

    def confirmed(self, up_to: int) -> bool:
        """Take a confirm offset; say whether it is higher than the known one."""
        is_higher = up_to > self.confirm
        self.confirm = max(self.confirm, up_to)
        return is_higher
