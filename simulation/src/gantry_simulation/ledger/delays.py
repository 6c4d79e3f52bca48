"""Delayed messages: when each may be delivered, whether it was moved or cancelled. None is early, a cancelled one is never delivered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from gantry_simulation.ledger.places import Place
from gantry_simulation.world.clocks import WALL_START_NS
from gantry_simulation.world.world import MS_NS, SECOND_NS

FASTER = 1 / 2000 + 2e-4
"""Store time follows the wall clock by at most 1 part in 2,000 (docs/operations.md, Clocks), and clocks drift."""
ROUNDING_SECONDS = 0.001
FAR_MS = 200_000
"""Longer than a life from its last fault to its end."""


class Due(NamedTuple):
    """When a message may be delivered: these seconds after this virtual time, and not before an instant of the store's clock."""

    from_ns: int
    wait_seconds: float = 0.0
    instant_ms: int = 0

    def is_far(self, now_ns: int) -> bool:
        """Whether no life lasts so long that the message is due."""
        return self.instant_ms > (WALL_START_NS + now_ns) // MS_NS + FAR_MS

    def allows(self, now_ns: int, store_ms: int) -> bool:
        """Whether a delivery is not early that is seen now and has this store time."""
        waited = (now_ns - self.from_ns) / SECOND_NS
        return waited >= self.wait_seconds * (1 - FASTER) - ROUNDING_SECONDS and store_ms >= self.instant_ms


class Confirmed(NamedTuple):
    """A move that a scheduler confirmed, and when."""

    due: Due
    at_ns: int


class Gone(NamedTuple):
    """A message that no longer waits, by the word of a scheduler: nothing delivers it from these offsets on, by queue."""

    ends: dict[int, int]
    why: str


@dataclass(slots=True)
class Delayed:
    """A delayed message, and all that may have happened to it."""

    store: str
    topic: str
    due: Due
    moved_ns: int = 0
    """When the move to `due` was confirmed."""
    also_due: list[Confirmed] = field(default_factory=list[Confirmed])
    """Confirmed moves that ran at the same time as that one, or as each other: any of them may be the last."""
    perhaps_due: list[Due] = field(default_factory=list[Due])
    """Moves without an answer. They may happen late, even after a later move."""
    was_due: list[Due] = field(default_factory=list[Due])
    """Before moves: after a loss it may be due then."""
    is_certain: bool = False
    """It was acknowledged, and nothing has happened since that takes it away."""
    is_at_once: bool = False
    """Its instant may have passed before it reached the store: then no scheduler knows it."""
    is_cancelled: bool = False
    cancellations: int = 0
    """Those that took effect, or may."""
    key: str = ""
    """A key of the message, by which tasks select it."""
    orders: int = 0
    """Requests to move it."""
    has_left: bool = False
    """Retention has deleted its last record in the queues of schedulers, which it may once the message is decided."""
    gone: Gone | None = None

    def all_due(self) -> list[Due]:
        """Return all times that may hold."""
        return [self.due, *(each.due for each in self.also_due), *self.perhaps_due]


class Delays:
    """All delayed messages. `violate` is called with each contradiction."""

    def __init__(self, now_ns: Callable[[], int], violate: Callable[[str], None]) -> None:
        self._now_ns, self._violate = now_ns, violate
        self.delayed: dict[str, Delayed] = {}

    def begin(
        self, message: str, store: str, topic: str, due: Due, *, is_at_once: bool = False, key: str = ""
    ) -> None:
        """Record that a message is being sent."""
        self.delayed[message] = Delayed(store, topic, due, is_at_once=is_at_once, key=key)

    def may_have_ended(self, message: str, *, cancellations: int = 0) -> bool:
        """Whether a message may have been delivered, or cancelled by more than these cancellations."""
        delayed, now_ns = self.delayed[message], self._now_ns()
        may_be_due = any(
            due.allows(now_ns, due.instant_ms) and not due.is_far(now_ns) for due in delayed.all_due()
        )
        return may_be_due or delayed.cancellations > cancellations

    def is_known(self, message: str) -> bool:
        """Whether a scheduler must know a message."""
        delayed = self.delayed[message]
        return delayed.is_certain and not delayed.is_at_once

    def acknowledged(self, message: str) -> None:
        """Record that the store has it."""
        self.delayed[message].is_certain = True

    def may_be_cancelled(self, message: str) -> None:
        """Record that a cancellation is on its way."""
        self.delayed[message].cancellations += 1

    def not_cancelled(self, message: str) -> None:
        """Record that a cancellation had no effect."""
        self.delayed[message].cancellations -= 1

    def cancelled(self, message: str) -> None:
        """Record that a cancellation was confirmed."""
        self.delayed[message].is_cancelled = True

    def may_be_moved(self, message: str, due: Due) -> None:
        """Record that a move is on its way."""
        self.delayed[message].orders += 1
        self.delayed[message].perhaps_due.append(due)

    def not_moved(self, message: str, due: Due) -> None:
        """Record that a move had no effect."""
        self.delayed[message].perhaps_due.remove(due)

    def moved(self, message: str, due: Due) -> None:
        """Record that a move was confirmed. It was requested at `due.from_ns`, and replaces what was confirmed before that."""
        delayed = self.delayed[message]
        delayed.perhaps_due.remove(due)
        delayed.was_due.append(delayed.due)
        before = (*delayed.also_due, Confirmed(delayed.due, delayed.moved_ns))
        delayed.also_due = [each for each in before if each.at_ns > due.from_ns]
        delayed.due, delayed.moved_ns = due, self._now_ns()

    def not_found(self, message: str) -> None:
        """Record that a scheduler that knows all messages of the store does not know this one."""
        delayed = self.delayed[message]
        if delayed.is_certain and not delayed.has_left:
            self._violate(f"{message} is unknown to the scheduler")

    def gone(self, message: str, gone: Gone) -> None:
        """Record that a scheduler has said that a message no longer waits."""
        delayed = self.delayed[message]
        delayed.gone = delayed.gone or gone

    def read(self, message: str, place: Place, store_ms: int) -> None:
        """Record that a message was delivered to a place, with this store time."""
        delayed = self.delayed.get(message)
        if delayed is None:
            return
        now_ns = self._now_ns()
        gone = delayed.gone
        if gone is not None and place.offset >= gone.ends.get(place.queue, place.offset + 1):
            self._violate(f"{message} is delivered at {place}, although {gone.why}")
        if delayed.is_cancelled:
            self._violate(f"{message} is cancelled and delivered")
        if not any(due.allows(now_ns, store_ms) for due in delayed.all_due()):
            self._violate(
                f"{message} is early: delivered at {now_ns} ns, store time {store_ms}, {delayed.due}"
            )

    def lost(self, store: str) -> None:
        """Forget what a store has confirmed: it may have lost it."""
        for delayed in self.delayed.values():
            if delayed.store == store:
                delayed.is_certain = delayed.is_cancelled = False
                delayed.gone = None
                delayed.perhaps_due += delayed.was_due

    def deleted(self, store: str, topic: str) -> None:
        """Forget what must be delivered to a topic: it waits until somebody creates the topic."""
        for delayed in self.delayed.values():
            if (delayed.store, delayed.topic) == (store, topic):
                delayed.is_certain = False
                delayed.gone = None

    def expired(self, message: str) -> None:
        """Require no delivery of a message that retention deletes after its delivery."""
        if message in self.delayed:
            self.delayed[message].is_certain = False

    def item_left(self, message: str) -> None:
        """Record that retention deletes the last record of a message in the queues of schedulers. It must still be delivered."""
        if message in self.delayed:
            self.delayed[message].has_left = True

    def required(self) -> set[str]:
        """Return the messages that must be delivered."""
        now_ns = self._now_ns()
        return {
            message
            for message, delayed in self.delayed.items()
            if delayed.is_certain
            and not delayed.cancellations
            and not any(due.is_far(now_ns) for due in delayed.all_due())
        }
