"""What was promised about every message of a mixed run, and what came of it: the judge of P6 to P9 under kills.

Pure: it is told what happened and counts. A message is known by its name, which is its body.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum


class Fate(Enum):
    """What must become of a message in the end."""

    ONCE = "delivered exactly once"
    NEVER = "never delivered"
    OPEN = "nobody knows: the answer to a decision is missing"


@dataclass(slots=True)
class Item:
    """One message: where it must appear, when at the earliest, and what was promised."""

    kind: str
    fate: Fate = Fate.ONCE
    is_acknowledged: bool = False
    due_ms: int = 0
    """Store time before which it may not be stored in its topic."""


@dataclass(frozen=True)
class Count:
    """The count line. Anything but zero behind `acknowledged` is a broken promise."""

    attempted: int
    acknowledged: int
    lost: int
    doubled: int
    early: int
    forbidden: int  # cancelled or rolled back, and delivered all the same
    foreign: int
    taken_again: int  # leased again after the answer `acked`

    @property
    def holds(self) -> bool:
        return not (
            self.lost or self.doubled or self.early or self.forbidden or self.foreign or self.taken_again
        )

    def __str__(self) -> str:
        return (
            f"attempted {self.attempted}  acknowledged {self.acknowledged}  lost {self.lost}  doubled {self.doubled}  "
            f"early {self.early}  forbidden {self.forbidden}  foreign {self.foreign}  taken again {self.taken_again}"
        )


@dataclass
class Books:
    """One run. Journeys tell it from their threads; the reader tells it what lies in the topics at the end."""

    items: dict[str, Item] = field(default_factory=dict[str, Item])
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _found: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    _acked: set[str] = field(default_factory=set[str])
    _taken_again: set[str] = field(default_factory=set[str])

    def attempt(self, name: str, kind: str) -> Item:
        """A message is about to be sent; the item is told the rest."""
        with self._lock:
            return self.items.setdefault(name, Item(kind))

    def received(self, name: str) -> None:
        """A consumer was given it."""
        with self._lock:
            if name in self._acked:
                self._taken_again.add(name)

    def acked(self, name: str) -> None:
        """The store answered that it is acknowledged by its consumer."""
        with self._lock:
            self._acked.add(name)

    @property
    def acked_count(self) -> int:
        return len(self._acked)

    def is_acked(self, name: str) -> bool:
        return name in self._acked

    def begin_reading(self) -> None:
        self._found.clear()

    def found(self, name: str, stored_ms: int) -> None:
        """It lies in the topic where it had to appear, stored at this store time."""
        self._found.append((name, stored_ms))

    def broken(self) -> dict[str, list[str]]:
        """Names by broken promise: where to look for the reason."""
        times = Counter(name for name, _ in self._found)
        promised = {name: item for name, item in self.items.items() if item.is_acknowledged}
        return {
            "lost": [n for n, item in promised.items() if item.fate is Fate.ONCE and not times[n]],
            "doubled": [n for n, count in times.items() if count > 1],
            "early": [n for n, at in self._found if n in self.items and at < self.items[n].due_ms],
            "forbidden": [n for n, item in self.items.items() if item.fate is Fate.NEVER and times[n]],
            "foreign": [n for n in times if n not in self.items],
            "taken again": sorted(self._taken_again),
        }

    def missing(self) -> list[str]:
        """Acknowledged messages that the last reading has not seen yet."""
        return self.broken()["lost"]

    def count(self) -> Count:
        """Judge the last reading."""
        broken = {promise: len(names) for promise, names in self.broken().items()}
        acknowledged = sum(item.is_acknowledged for item in self.items.values())
        return Count(
            len(self.items), acknowledged, broken["lost"], broken["doubled"], broken["early"],
            broken["forbidden"], broken["foreign"], broken["taken again"],
        )  # fmt: skip
