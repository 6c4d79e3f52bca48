"""How a replica uses the register: one operation at a time, and a write until its outcome is known.

A write is recognized by its nonce. Without a reply it is repeated. When it is refused, the register is read until it shows a version that is not
older than the one that was to be written. An answer may be stale; only a version that is newer than the known one changes anything.
"""

from broker_store.replication.register.record import Registered
from broker_store.replication.replica import Replica
from broker_store.replication.steps import (
    ReadRegister,
    RegisterAnswer,
    RegisterLost,
    RegisterRead,
    RegisterRefused,
    WriteRegister,
)  # fmt: skip


class RegisterUse:
    """The register as one life of a replica sees it."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self.silent_since: int | None = None
        """Since when it does not answer, in ms of the replica's clock; to be shown (rule 9)."""
        self._operation: int | None = None
        self._issued_at = replica.now
        self._is_soon = True
        self._write: Registered | None = None
        self._is_refused = False

    @property
    def writes(self) -> bool:
        """Say whether the outcome of a write is not known."""
        return self._write is not None

    def is_own(self, record: Registered) -> bool:
        """Say whether a record is the write whose outcome is not known."""
        return self._write is not None and record.nonce == self._write.nonce

    def settle(self) -> None:
        """Stop repeating the write: its outcome is known."""
        self._write = None

    def write(self, record: Registered) -> None:
        """Ask for a record, until the outcome is known."""
        assert self._write is None
        self._write, self._is_refused = record, False
        self._issue()

    def look_soon(self) -> None:
        """Read at the next tick: somebody knows more."""
        self._is_soon = True

    def tick(self, pause_ms: int) -> None:
        """Do the next operation if the one before it was that long ago, or somebody knows more."""
        if self._is_soon or self._replica.now - self._issued_at >= pause_ms:
            self._issue()

    def answer(self, answer: RegisterAnswer) -> tuple[bool, Registered | None]:
        """Take an answer. Return whether it answers the current operation with the register's word, and the record in it."""
        if answer.operation != self._operation:
            return False, None
        self._operation = None
        now = self._replica.now
        if isinstance(answer, RegisterLost):
            self.silent_since = now if self.silent_since is None else self.silent_since
            self._issued_at, self._is_soon = now, False
            return False, None
        self.silent_since = None
        if isinstance(answer, RegisterRead):
            return True, answer.record
        if isinstance(answer, RegisterRefused):
            self._is_refused = self._is_soon = True
            return True, answer.newest
        return True, self._write

    def _issue(self) -> None:
        if self._operation is not None:
            return
        self._operation = self._replica.new_number()
        self._issued_at, self._is_soon = self._replica.now, False
        if self._write is not None and not self._is_refused:
            self._replica.emit(WriteRegister(self._operation, self._write))
        else:
            self._replica.emit(ReadRegister(self._operation))
