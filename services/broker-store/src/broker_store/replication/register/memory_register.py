"""A register in memory, for tests and the simulation, with the faults that a real one has. Keeps nothing across a restart of the process."""

from dataclasses import dataclass, field

from broker_store.replication.register.port import (
    KnownVersion,
    Outcome,
    RegisterAway,
    RegisterUnusable,
    Unknown,
    Written,
    check_place,
    outcome_of,
    poll_newer,
)
from broker_store.replication.register.record import COUNT_MAX, Registered, decode, encode

POLL_SECONDS = 0.05


@dataclass
class Records:
    """The records of one group, which the registers of its stores share."""

    group: str
    stored: list[bytes] = field(default_factory=list[bytes])
    late: list[tuple[int, bytes]] = field(default_factory=list[tuple[int, bytes]])
    """Writes that are under way: expected version and record."""

    def append(self, expected_version: int, record: bytes) -> bool:
        """Append a record if `expected_version` is the newest. The one place where writers race."""
        if len(self.stored) != expected_version:
            return False
        self.stored.append(record)
        return True

    def arrive(self) -> None:
        """Let the writes that are under way arrive, in order."""
        late, self.late = self.late, []
        for expected_version, record in late:
            self.append(expected_version, record)


@dataclass
class Faults:
    """What fails between one store and the register. Change it at any time."""

    is_away: bool = False
    """Nothing answers, and nothing arrives."""
    stale_by: int = 0
    """Reads lack this many of the newest records."""
    replies_lost: int = 0
    """So many next writes take effect, and their replies are lost."""
    writes_late: int = 0
    """So many next writes stay under way until `Records.arrive`."""
    overtaken_by: list[Registered] = field(default_factory=list[Registered])
    """Records of other stores that arrive just before the next write."""


class MemoryRegister(KnownVersion):
    """The register of one store: the shared records, and the faults on the way to them."""

    def __init__(self, records: Records, faults: Faults, remembered: int) -> None:
        """Take the version that the store remembers, 0 if none."""
        super().__init__(remembered)
        self._records, self._faults = records, faults

    async def read(self) -> Registered:
        """See `Register.read`."""
        newest = self._newest()
        if newest is None:
            raise RegisterUnusable(f"the register of {self._records.group} is empty")
        return self.accept(newest)

    async def write(self, expected_version: int, new: Registered) -> Outcome:
        """See `Register.write`."""
        if expected_version < 1:
            raise ValueError("only bootstrap makes a first record")
        if not self._records.stored:
            raise RegisterUnusable(f"the register of {self._records.group} is empty")
        return self._append(expected_version, new)

    async def bootstrap(self, first: Registered) -> Outcome:
        """See `Register.bootstrap`."""
        return self._append(0, first)

    async def wait_newer(self, version: int, seconds_max: float) -> Registered | None:
        """See `Register.wait_newer`."""
        return await poll_newer(self, version, seconds_max, POLL_SECONDS)

    def _append(self, expected_version: int, new: Registered) -> Outcome:
        check_place(expected_version, new, self._records.group)
        record, faults = encode(new), self._faults
        if faults.is_away:
            return Unknown("the register is away")
        for other in faults.overtaken_by:
            self._records.append(other.version - 1, encode(other))
        faults.overtaken_by.clear()
        if faults.writes_late:
            faults.writes_late -= 1
            self._records.late.append((expected_version, record))
            return Unknown("no answer")
        is_written = self._records.append(expected_version, record)
        if faults.replies_lost:
            faults.replies_lost -= 1
            return Unknown("no answer")
        if is_written:
            self.learn(new.version)
            return Written(new.version)
        newest = self._newest()
        outcome = outcome_of(new, newest, self._at(new.version), COUNT_MAX)
        if newest is not None:
            self.learn(newest.version)
        return outcome

    def _newest(self) -> Registered | None:
        if self._faults.is_away:
            raise RegisterAway("the register is away")
        return self._at(len(self._records.stored) - self._faults.stale_by)

    def _at(self, version: int) -> Registered | None:
        return (
            decode(self._records.stored[version - 1]) if 1 <= version <= len(self._records.stored) else None
        )
