"""Decides what a run reads of each log, from the table's marks and the logs' current content. Opens nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from gantry_spark.export.failures import Refused
from gantry_spark.export.tables.table import Mark, Marks
from gantry_spark.source.plan import Lost

_HOW: Final = "continue without them by --accept-loss, or export into another folder"


class LogView(Protocol):
    """A snapshot's store, as seen from here."""

    @property
    def broker(self) -> str:
        """Its broker's name."""
        ...

    @property
    def log_id(self) -> str:
        """Name of the log; empty for one that Gantry never opened."""
        ...

    @property
    def min_position(self) -> int:
        """Position of the first record."""
        ...

    @property
    def end_position(self) -> int:
        """The position after the last record."""
        ...


@dataclass(frozen=True)
class Reach:
    """The range to read by broker, the marks after it, and missing data as text."""

    start: dict[str, int]
    marks: Marks
    bytes: int
    lost: tuple[str, ...]
    gone: tuple[Lost, ...] = ()
    """The missing ranges with known positions: deleted before they were exported."""


def reach(views: Iterable[LogView], marks: Marks, *, accept_loss: bool) -> Reach:
    """Return the range to read. Raises Refused if messages were deleted before they were exported, unless that is accepted."""
    start: dict[str, int] = {}
    after: Marks = {}
    lost: list[str] = []
    gone: list[Lost] = []
    size = 0
    for view in views:
        first, words = _start(view, marks.get(view.broker))
        if words:
            lost.append(words)
        mark = marks.get(view.broker)
        if mark is not None and mark.log_id == view.log_id and mark.next < first:
            gone.append(Lost(view.broker, mark.next, first))
        start[view.broker] = first
        after[view.broker] = Mark(view.log_id, view.end_position)
        size += view.end_position - first
    if lost and not accept_loss:
        raise Refused(f"{'; '.join(lost)}: {_HOW}")
    return Reach(start, after, size, tuple(lost), tuple(gone))


def in_gaps(gaps: Sequence[Lost], *, accept_loss: bool) -> str:
    """Describe gaps inside the logs; an empty text if there are none. Raises Refused unless they are accepted."""
    words = "; ".join(f"files of the log are missing: {gap}" for gap in gaps)
    if words and not accept_loss:
        raise Refused(f"{words}: {_HOW}")
    return words


def _start(view: LogView, mark: Mark | None) -> tuple[int, str]:
    """Return where to begin in a log, and a description of what is missing before it."""
    if mark is None:
        return view.min_position, ""
    if mark.log_id != view.log_id:
        words = f"the log of {view.broker} differs from the exported one (it was replaced)"
        return view.min_position, words
    if mark.next > view.end_position:
        words = f"the log of {view.broker} ends at {view.end_position}, but was exported up to {mark.next} (it was cut)"
        return view.end_position, words
    if mark.next < view.min_position:
        words = f"{view.broker} has deleted positions {mark.next} to {view.min_position} before they were exported"
        return view.min_position, words
    return mark.next, ""
