"""Keys of every visible message: those in the index files, and those held back until an earlier message is flushed.

The files hold a prefix of the log without a gap: recovery takes their newest entry as proof of all before
it. A message of an asynchronous topic is visible while an earlier, durable one waits for its flush. Its key
stays in memory until then and is found there.
"""

from bisect import bisect_left
from collections.abc import Sequence
from operator import itemgetter
from typing import Protocol

from broker_store.commit.message import IndexEntry

_position_of = itemgetter(1)


class KeyFiles(Protocol):
    """The index files."""

    @property
    def end_position(self) -> int:
        """Records up to here are indexed. -1 if none is."""
        ...

    def put(self, entries: Sequence[IndexEntry]) -> None:
        """Add (hash, position, store time in ms) entries in log order.

        Never raises: an entry that finds no file waits for one.
        """
        ...

    def lookup(self, key_hash: int, begin_ms: int, end_ms: int, count_max: int) -> Sequence[int]:
        """Return positions of records with that hash and store time, newest first. Other keys may share the hash."""
        ...


class VisibleKeys:
    """Puts keys into the files in log order, and finds them as soon as their message is visible."""

    def __init__(self, files: KeyFiles) -> None:
        self._files = files
        self._held: list[IndexEntry] = []
        """Entries at or above `_held_from`, unordered."""
        self._held_from = 0

    @property
    def end_position(self) -> int:
        """Records up to here are in the files. -1 if none is."""
        return self._files.end_position

    def put(self, entries: list[IndexEntry], visible_below: int) -> None:
        """Add the keys of newly visible messages, in log order. Everything below `visible_below` is visible now."""
        if self._held or (entries and entries[-1][1] >= visible_below):
            entries = self._in_log_order(entries, visible_below)
        if entries:
            self._files.put(entries)

    def lookup(self, key_hash: int, begin_ms: int, end_ms: int, count_max: int) -> Sequence[int]:
        """Return positions of records with that hash and store time, newest first. Other keys may share the hash."""
        if not self._held:
            return self._files.lookup(key_hash, begin_ms, end_ms, count_max)
        meant = {
            at for hash_, at, time_ms in self._held if hash_ == key_hash and begin_ms <= time_ms <= end_ms
        }
        held = sorted(meant, reverse=True)[:count_max]
        return [*held, *self._files.lookup(key_hash, begin_ms, end_ms, count_max - len(held))]

    def _in_log_order(self, entries: list[IndexEntry], visible_below: int) -> list[IndexEntry]:
        """Return the entries below a position in log order, and hold the others."""
        self._held += entries
        if visible_below == self._held_from:
            return []
        self._held_from = visible_below
        self._held.sort(key=_position_of)
        first = bisect_left(self._held, visible_below, key=_position_of)
        ready, self._held = self._held[:first], self._held[first:]
        return ready
