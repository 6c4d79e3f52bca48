"""The ledger of a mixed run: what was promised about every message, and what happened. Judges P6 to P9 under kills.

Pure: callers report events, the ledger counts. A message's name is its body. Names of one sender end in ascending
numbers, so that a run of hours can drop finished messages and keep only their numbers.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from enum import Enum

from gantry_loadtest.judging.intervals import Intervals


class Fate(Enum):
    """The required end of a message."""

    ONCE = "delivered exactly once"
    NEVER = "never delivered"
    OPEN = "nobody knows: the answer to a decision is missing"


@dataclass(slots=True)
class Item:
    """One message: where it must arrive, when at the earliest, and what was promised."""

    kind: str
    fate: Fate = Fate.ONCE
    is_acknowledged: bool = False
    is_consumed: bool = False
    """Whether consumers have to acknowledge it, too."""
    due_ms: int = 0
    """Store time before which it may not be stored in its topic."""


@dataclass(frozen=True)
class Count:
    """The count line. Anything but zero after `acknowledged` is a broken promise."""

    attempted: int
    acknowledged: int
    lost: int
    doubled: int
    early: int
    forbidden: int  # cancelled or rolled back, yet delivered
    foreign: int
    taken_again: int  # leased again after the answer `acked`
    disordered: int  # delivered to a group before its predecessor was done

    @property
    def holds(self) -> bool:
        """Whether every promise was kept."""
        return not (
            self.lost or self.doubled or self.early or self.forbidden or self.foreign or self.taken_again
            or self.disordered
        )  # fmt: skip

    def __str__(self) -> str:
        return (
            f"attempted {self.attempted}  acknowledged {self.acknowledged}  lost {self.lost}  doubled {self.doubled}  "
            f"early {self.early}  forbidden {self.forbidden}  foreign {self.foreign}  taken again {self.taken_again}  "
            f"disordered {self.disordered}"
        )


@dataclass
class Ledger:
    """The ledger of one run. Journeys report from their threads; readers report what the topics hold."""

    items: dict[str, Item] = field(default_factory=dict[str, Item])
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _found: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    _acked: set[str] = field(default_factory=set[str])
    _taken_again: set[str] = field(default_factory=set[str])
    _disordered: set[str] = field(default_factory=set[str])
    _forgotten: dict[str, Intervals] = field(default_factory=dict[str, Intervals])
    _forgotten_count: int = 0
    _doubled_late: set[str] = field(default_factory=set[str])
    _late: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    def attempt(self, name: str, kind: str) -> Item:
        """Add a message that is about to be sent; the caller fills in the item later."""
        with self._lock:
            return self.items.setdefault(name, Item(kind))

    def received(self, name: str) -> None:
        """Record its delivery to a consumer."""
        with self._lock:
            if name in self._acked or self._is_forgotten(name):
                self._taken_again.add(name)

    def acked(self, name: str) -> None:
        """Record the store's answer that its consumer acknowledged it."""
        with self._lock:
            self._acked.add(name)

    def disordered(self, name: str) -> None:
        """Record that it was delivered before its predecessor was done."""
        with self._lock:
            self._disordered.add(name)

    @property
    def acked_count(self) -> int:
        """The number of kept messages their consumer acknowledged."""
        return len(self._acked)

    def is_acked(self, name: str) -> bool:
        """Whether its consumer got an answer to the acknowledgement."""
        return name in self._acked

    def undone(self) -> list[str]:
        """Return what consumers still have to acknowledge."""
        with self._lock:
            items = list(self.items.items())
        return [
            name
            for name, item in items
            if item.is_consumed and item.is_acknowledged and name not in self._acked
        ]

    def begin_reading(self) -> None:
        """Forget what was found: everything is read again from the start."""
        self._found.clear()

    def found(self, name: str, stored_ms: int) -> None:
        """Record that it is in its topic, with this store time."""
        with self._lock:
            if self._is_forgotten(name):
                self._doubled_late.add(name)
            else:
                self._found.setdefault(name, []).append(stored_ms)

    def forget_done(self) -> int:
        """Drop messages that can only go wrong by arriving again, but keep their numbers.

        Only for readers that never start over. Returns how many are kept in full.
        """
        with self._lock:
            for name in [name for name, item in self.items.items() if self._is_done(name, item)]:
                due_ms, (stored_ms,) = self.items.pop(name).due_ms, self._found.pop(name)
                if due_ms:
                    self._late.append((stored_ms, stored_ms - due_ms))
                self._acked.discard(name)
                sender, _, number = name.rpartition("-")
                self._forgotten.setdefault(sender, Intervals()).add(int(number))
                self._forgotten_count += 1
            return len(self.items)

    def take_late(self) -> list[tuple[int, int]]:
        """Return, once, the store time and lateness in ms of each dropped scheduled message."""
        with self._lock:
            late, self._late = self._late, []
            return late

    def _is_done(self, name: str, item: Item) -> bool:
        times = self._found.get(name, [])
        return (
            item.is_acknowledged
            and item.fate is Fate.ONCE
            and len(times) == 1
            and times[0] >= item.due_ms
            and (not item.is_consumed or name in self._acked)
        )

    def _is_forgotten(self, name: str) -> bool:
        sender, _, number = name.rpartition("-")
        numbers = self._forgotten.get(sender)
        return numbers is not None and number.isdecimal() and int(number) in numbers

    def broken(self) -> dict[str, list[str]]:
        """Return names by broken promise, for diagnosis."""
        with self._lock:
            items, found = dict(self.items), {name: tuple(times) for name, times in self._found.items()}
        return {
            "lost": [
                name
                for name, item in items.items()
                if item.is_acknowledged and item.fate is Fate.ONCE and name not in found
            ],
            "doubled": [n for n, times in found.items() if len(times) > 1] + sorted(self._doubled_late),
            "early": [n for n, times in found.items() if n in items and min(times) < items[n].due_ms],
            "forbidden": [n for n, item in items.items() if item.fate is Fate.NEVER and n in found],
            "foreign": [n for n in found if n not in items],
            "taken again": sorted(self._taken_again),
            "disordered": sorted(self._disordered),
        }

    def missing(self) -> list[str]:
        """Return acknowledged messages the readers have not seen."""
        return self.broken()["lost"]

    def counted(self) -> tuple[int, int]:
        """Return how many messages were attempted and how many acknowledged."""
        with self._lock:
            acknowledged = sum(item.is_acknowledged for item in self.items.values())
            return len(self.items) + self._forgotten_count, acknowledged + self._forgotten_count

    def count(self) -> Count:
        """Judge what was read."""
        broken = {promise: len(names) for promise, names in self.broken().items()}
        attempted, acknowledged = self.counted()
        return Count(
            attempted, acknowledged, broken["lost"], broken["doubled"], broken["early"],
            broken["forbidden"], broken["foreign"], broken["taken again"], broken["disordered"],
        )  # fmt: skip
