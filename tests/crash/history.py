"""The checker of every crash test: it records what was sent, acknowledged and read.

Pure: callers report events and it counts. The name of a message is its body.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Place = tuple[str, int, int]  # topic, queue id, offset


@dataclass(frozen=True)
class Verdict:
    """The count line of a run. Any count but zero in `lost`, `moved`, `foreign` or `doubled_keyed` is a broken guarantee."""

    attempted: int
    acknowledged: int
    recovered: int  # stored although the response was lost in the crash: allowed
    lost: int  # P1: acknowledged, but not at its position
    moved: int  # P2: one position held two different messages over time
    foreign: int  # P4: read, but never sent
    doubled_keyed: int  # P7: a key stored twice inside its window
    doubled_unkeyed: int  # the producer sent it twice: allowed

    @property
    def holds(self) -> bool:
        return not (self.lost or self.moved or self.foreign or self.doubled_keyed)

    def __str__(self) -> str:
        return (
            f"attempted {self.attempted}  acknowledged {self.acknowledged}  lost {self.lost}  moved {self.moved}  "
            f"foreign {self.foreign}  doubled keyed {self.doubled_keyed}  doubled unkeyed {self.doubled_unkeyed}  "
            f"recovered {self.recovered}"
        )


@dataclass
class History:
    """One run: report every event, and call `verdict()` after reading everything once from the first to the last offset."""

    _keyed: dict[str, bool] = field(default_factory=dict[str, bool])
    _acknowledged: dict[str, Place] = field(default_factory=dict[str, Place])
    _held: dict[Place, str] = field(default_factory=dict[Place, str])
    _moved: set[Place] = field(default_factory=set[Place])
    _latest: dict[Place, str] = field(default_factory=dict[Place, str])

    def attempt(self, name: str, *, keyed: bool) -> None:
        """`name` is about to be sent; repeated calls for retries have no effect."""
        self._keyed[name] = keyed

    def acknowledge(self, name: str, place: Place) -> None:
        """The store acknowledged `name` at `place`."""
        self._acknowledged[name] = place
        self._hold(place, name)

    @property
    def acknowledged(self) -> int:
        """Number of acknowledged sends so far."""
        return len(self._acknowledged)

    def begin_reading(self) -> None:
        """Start a full read; only its messages count as present."""
        self._latest.clear()

    def read(self, name: str, place: Place) -> None:
        """`name` was read at `place`."""
        self._latest[place] = name
        self._hold(place, name)

    def _hold(self, place: Place, name: str) -> None:
        if self._held.setdefault(place, name) != name:
            self._moved.add(place)

    def doubled(self) -> dict[str, list[Place]]:
        """Names that the last read found at more than one position, with the positions, to find the cause."""
        places: dict[str, list[Place]] = {}
        for place, name in self._latest.items():
            places.setdefault(name, []).append(place)
        return {name: found for name, found in places.items() if len(found) > 1}

    def verdict(self) -> Verdict:
        """Judge the last read against all reported events."""
        places: dict[str, list[Place]] = {}
        for place, name in self._latest.items():
            places.setdefault(name, []).append(place)
        lost = sum(1 for name, place in self._acknowledged.items() if self._latest.get(place) != name)
        doubled = [name for name, found in places.items() if len(found) > 1]
        return Verdict(
            attempted=len(self._keyed),
            acknowledged=len(self._acknowledged),
            recovered=sum(1 for name in places if name in self._keyed and name not in self._acknowledged),
            lost=lost,
            moved=len(self._moved),
            foreign=sum(1 for name in places if name not in self._keyed),
            doubled_keyed=sum(1 for name in doubled if self._keyed.get(name, False)),
            doubled_unkeyed=sum(1 for name in doubled if not self._keyed.get(name, True)),
        )
