"""Leased messages of one group per topic: who may have which, and what was acknowledged. A message is acknowledged, dead, or comes again.

An acknowledged message never comes again. While somebody holds a message for certain, nobody else gets it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from gantry_simulation.ledger.delays import FASTER, ROUNDING_SECONDS
from gantry_simulation.ledger.places import Place
from gantry_simulation.world.world import SECOND_NS


class Sight(NamedTuple):
    """A message at a place. After a loss another one may be there."""

    place: Place
    message: str


@dataclass(slots=True)
class Leased:
    """What is known about a message."""

    acked_ns: int | None = None
    """When its acknowledgment was confirmed."""
    held_since_ns: int = 0
    held_until_ns: int = 0
    """Between these times nobody gets it: somebody has it, or it was given back for later."""
    held_in_life: int | None = None
    """Of the store. Its end may end the lease; None where it ended meanwhile."""
    latest_ns: int = 0
    """Begin of the last call that got it."""
    acking: set[int] = field(default_factory=set[int])
    """Leases under which an acknowledgment was sent, by the time when they were seen."""


class Leases:
    """All messages that were received. `violate` is called with each contradiction."""

    def __init__(self, now_ns: Callable[[], int], violate: Callable[[str], None]) -> None:
        self._now_ns, self._violate = now_ns, violate
        self._leased: dict[Sight, Leased] = {}
        self.deaths: Counter[Sight] = Counter()
        """Dead letters of each message, by where it was first."""
        self._late: list[Sight] = []
        self.received_count: int = 0

    def received(self, sight: Sight, began_ns: int, seconds: float, life: int | None) -> None:
        """Record a message that a call has got for these seconds, which began at this time in this life of the store.

        `life` is None when the store restarted meanwhile.
        """
        leased = self._leased.setdefault(sight, Leased())
        self.received_count += 1
        now_ns = self._now_ns()
        if leased.acked_ns is not None and began_ns > leased.acked_ns:
            self._violate(f"{sight.message} at {sight.place} was acknowledged and comes again")
        is_held = life is not None and leased.held_in_life == life and leased.held_since_ns < began_ns
        if is_held and now_ns < leased.held_until_ns:
            self._violate(
                f"{sight.message} at {sight.place} is received although it is held until {leased.held_until_ns} ns"
            )
        leased.latest_ns = max(leased.latest_ns, began_ns)
        self._hold(leased, began_ns, seconds, life)

    def held(self, sight: Sight, from_ns: int, seconds: float, life: int) -> None:
        """Record that nobody gets a message for these seconds: its lease is longer, or it was given back for later."""
        self._hold(self._leased[sight], from_ns, seconds, life)

    def freed(self, sight: Sight) -> None:
        """Record that a message may be given to anybody from now on: a request about it is on its way."""
        self._leased[sight].held_until_ns = 0

    def acking(self, sight: Sight, seen_ns: int, life: int) -> bool:
        """Record that an acknowledgment is on its way under the lease that was seen then; whether it is too late for it.

        A store that restarted since, in another life, has forgotten the later lease.
        """
        leased = self._leased[sight]
        leased.acking.add(seen_ns)
        return leased.latest_ns > seen_ns and leased.held_in_life == life

    def acked(self, sight: Sight, seen_ns: int, *, is_late: bool) -> None:
        """Record that it was confirmed."""
        leased = self._leased[sight]
        leased.acked_ns = self._now_ns()
        if is_late and leased.acking == {seen_ns}:
            self._late.append(sight)

    def check(self) -> None:
        """Report late acknowledgments that were accepted, except of messages that died: those are done, which is what is answered."""
        again = self._deaths_again()
        for sight in self._late:
            if sight not in self.deaths and not again[sight.message]:
                self._violate(
                    f"{sight.message} at {sight.place} is acknowledged under a lease that another one replaced"
                )

    def due(self, found: dict[Place, str]) -> list[Sight]:
        """Return what must still be delivered: messages that are neither acknowledged nor dead."""
        unknown, again = Leased(), self._deaths_again()
        waiting: list[Sight] = []
        for sight in map(Sight._make, found.items()):
            if self._leased.get(sight, unknown).acking or sight in self.deaths:
                continue
            if again[sight.message] > 0:
                again[sight.message] -= 1
            else:
                waiting.append(sight)
        return waiting

    def _deaths_again(self) -> Counter[str]:
        """Count how often each message died after it was redriven: each of these letters names the place where it was first."""
        again: Counter[str] = Counter()
        for sight, count in self.deaths.items():
            again[sight.message] += count - 1
        return again

    def lost(self, store: str) -> None:
        """Forget what a store has confirmed: it may have lost it."""
        for sight, leased in self._leased.items():
            if sight.place.store == store:
                leased.acked_ns = None

    def deleted(self, store: str, topic: str) -> None:
        """Forget what was confirmed about the messages of a topic, because it is being deleted or was.

        Its leases have ended, and the deleted messages are done: an acknowledgment of one is confirmed under any lease.
        """
        for sight, leased in self._leased.items():
            if sight.place[:2] == (store, topic):
                leased.acked_ns = None
                leased.held_until_ns = 0
                leased.held_in_life = None

    def _hold(self, leased: Leased, from_ns: int, seconds: float, life: int | None) -> None:
        shortest = seconds * (1 - FASTER) - ROUNDING_SECONDS
        leased.held_in_life = life
        leased.held_since_ns = self._now_ns()
        leased.held_until_ns = from_ns + int(shortest * SECOND_NS)
