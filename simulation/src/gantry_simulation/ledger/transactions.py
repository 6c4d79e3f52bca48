"""Transactions: what their clients wanted, what the store confirmed. The first decision wins, a commit is visible once, a rollback never."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from gantry_simulation.world.world import SECOND_NS

Decision = Literal["commit", "rollback"]
COMMIT: Decision = "commit"
ROLLBACK: Decision = "rollback"
STATES: dict[str, Decision] = {"committed": COMMIT, "rolledBack": ROLLBACK}
"""Decisions by the state that a store reports."""


@dataclass(slots=True)
class Half:
    """A half message."""

    topic: str
    sent_ns: int
    store: str = ""
    """Empty before its acknowledgment."""
    key: str = ""
    """Its unique key."""
    is_certain: bool = False
    """It was acknowledged, and nothing has happened since that takes it away."""
    possible: set[Decision] = field(default_factory=set[Decision])
    """Decisions that somebody has requested."""
    known: set[Decision] = field(default_factory=set[Decision])
    """Decisions that the store confirmed. There must be one."""
    wanted: Decision | None = None
    """What its producer answers to a check."""
    checks: int = 0
    has_left: bool = False
    """Retention deleted it once it was decided: nobody can query its outcome."""


class Transactions:
    """All halves by their message. `violate` is called with each contradiction."""

    def __init__(self, now_ns: Callable[[], int], violate: Callable[[str], None]) -> None:
        self._now_ns, self._violate = now_ns, violate
        self.halves: dict[str, Half] = {}
        self.by_key: dict[str, str] = {}
        """Messages of link clients by their unique key."""

    def begin(self, message: str, topic: str) -> Half:
        """Record that a half is being sent."""
        half = self.halves[message] = Half(topic, self._now_ns())
        return half

    def acknowledged(self, message: str, store: str, key: str) -> None:
        """Record that a store has the half."""
        half = self.halves[message]
        half.store, half.key, half.is_certain = store, key, True

    def requested(self, message: str, decision: Decision) -> None:
        """Record that a decision is on its way to the store."""
        self.halves[message].possible.add(decision)

    def decided(self, message: str, decision: Decision) -> None:
        """Record that the store confirmed a decision."""
        half = self.halves[message]
        if half.known and decision not in half.known:
            self._violate(f"{message} is decided twice: {decision} after {', '.join(half.known)}")
        if decision not in half.possible:
            self._violate(f"{message} has the decision {decision}, which nobody requested")
        half.known.add(decision)

    def checked(self, message: str, after_seconds: float) -> None:
        """Record that the producer is asked, at the earliest this long after it sent the half."""
        half = self.halves[message]
        half.checks += 1
        waited = (self._now_ns() - half.sent_ns) / SECOND_NS
        if waited < after_seconds:
            self._violate(f"{message} is checked {waited} s after it was sent")

    def read(self, message: str) -> None:
        """Record that a message was delivered."""
        half = self.halves.get(message)
        if half is None:
            return
        if COMMIT not in half.possible:
            self._violate(f"{message} is delivered before anybody commits it")
        elif half.known == {ROLLBACK}:
            self._violate(f"{message} is delivered, but it was rolled back")

    def lost(self, store: str) -> None:
        """Forget what a store has confirmed: it may have lost it."""
        for half in self.halves.values():
            if half.store == store:
                half.is_certain = False
                half.known.clear()

    def deleted(self, store: str, topic: str) -> None:
        """Forget what must become of the transactions of a topic. Nobody can commit there while it does not exist."""
        for half in self.halves.values():
            if half.store in (store, "") and half.topic == topic:
                half.is_certain = False

    def expired(self, message: str) -> None:
        """Require nothing of a committed message that retention deletes."""
        if message in self.halves:
            self.halves[message].is_certain = False

    def half_left(self, message: str) -> None:
        """Record that retention deletes a half, which it may once it is decided."""
        if message in self.halves:
            self.halves[message].has_left = True

    def required(self) -> set[str]:
        """Return the messages that were committed for certain: each must be readable."""
        return {
            message for message, half in self.halves.items() if half.is_certain and half.known == {COMMIT}
        }

    def open(self) -> list[tuple[str, Half]]:
        """Return the halves whose decision is not known, although their store has them."""
        return [
            (message, half)
            for message, half in self.halves.items()
            if half.is_certain and not half.known and not half.has_left
        ]
