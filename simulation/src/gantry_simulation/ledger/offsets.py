"""Offsets that clients committed: an answered commit is durable, and only a later one replaces it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple


class Cell(NamedTuple):
    """Where a group's offset is."""

    store: str
    group: str
    topic: str
    queue: int


@dataclass(eq=False, slots=True)
class Commit:
    """One commit. Each of a run has its own offset."""

    cell: Cell
    offset: int
    began_ns: int
    answered_ns: int | None = None
    """None: it may happen at any time from its begin on."""
    meets_deletion: bool = False
    """Its topic was deleted before it was answered: the deletion may have removed it, or not."""

    def may_follow(self, other: Commit) -> bool:
        """Whether it may have happened after another one."""
        return self.answered_ns is None or self.answered_ns >= other.began_ns


@dataclass(slots=True)
class _Known:
    commits: list[Commit] = field(default_factory=list[Commit])
    is_free: bool = False
    """The topic was deleted: other offsets are possible until a commit is answered."""


class Offsets:
    """All commits by their cell. `violate` is called with each contradiction."""

    def __init__(self, now_ns: Callable[[], int], violate: Callable[[str], None]) -> None:
        self.now_ns: Callable[[], int] = now_ns
        """Virtual time in nanoseconds."""
        self._violate = violate
        self._cells: defaultdict[Cell, _Known] = defaultdict(_Known)
        self._carried: dict[Cell, tuple[int, int]] = {}
        """Life of the store, and the highest offset that an answered pull carried in it."""

    def begin(self, cell: Cell, offset: int) -> Commit:
        """Record that an offset is being committed."""
        commit = Commit(cell, offset, self.now_ns())
        self._cells[cell].commits.append(commit)
        return commit

    def answered(self, commit: Commit) -> None:
        """Record that a commit is durable."""
        commit.answered_ns = self.now_ns()
        known = self._cells[commit.cell]
        if commit in known.commits and not commit.meets_deletion:
            known.is_free = False

    def read(self, cell: Cell, offset: int | None, began_ns: int) -> None:
        """Record what the store answered to a query that began at this time. None or 0: it has no offset."""
        known = self._cells[cell]
        before = [
            commit
            for commit in known.commits
            if commit.answered_ns is not None and commit.answered_ns <= began_ns
        ]
        possible = {
            commit.offset for commit in known.commits if all(commit.may_follow(other) for other in before)
        }
        if not before:
            possible |= {0}
        if (offset or 0) not in possible and not known.is_free:
            wanted = ", ".join(map(str, sorted(possible)))
            self._violate(f"{cell} has the offset {offset}, not {wanted}")

    def carried(self, cell: Cell, offset: int, life: int) -> None:
        """Record that a pull with this offset was answered, in this life of the store. It is kept in memory for a while."""
        known = self._carried.get(cell, (life, 0))
        self._carried[cell] = life, max(offset, known[1] if known[0] == life else 0)

    def least(self, cell: Cell, life: int) -> int:
        """Return what the offset is at least, as pulls never set it back in one life of the store."""
        known = self._carried.get(cell, (life, 0))
        return known[1] if known[0] == life else 0

    def cells(self) -> list[Cell]:
        """Return where clients committed anything."""
        return list(self._cells)

    def deleted(self, store: str, topic: str) -> None:
        """Forget the offsets of a topic. A commit that was never answered may still happen."""
        self._carried = {cell: known for cell, known in self._carried.items() if cell[::2] != (store, topic)}
        for cell, known in self._cells.items():
            if (cell.store, cell.topic) == (store, topic):
                known.commits = [commit for commit in known.commits if commit.answered_ns is None]
                for commit in known.commits:
                    commit.meets_deletion = True
                known.is_free = True
