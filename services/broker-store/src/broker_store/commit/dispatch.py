# ruff: noqa: ARG002, D102 - the Protocols say what these methods promise
"""After visibility: units into queues, keys into the index, waiting readers woken. Decides nothing about durability."""

from bisect import bisect_left
from collections.abc import Sequence
from operator import itemgetter
from typing import Protocol

from broker_store.commit.message import Arrivals, Entry, IndexEntry
from gantry_chassis.logs import get_logger

_log = get_logger()
_position_of = itemgetter(1)


class KeyIndexWriter(Protocol):
    """The index files, as the writing side needs them. What they hold reaches up to one position of the log, without a gap."""

    def put(self, entries: Sequence[IndexEntry]) -> None:
        """Add (hash, position, store time in ms) entries, in log order. Does not raise: what finds no file waits for one."""
        ...


class Readers(Protocol):
    """The reading side: told what arrived, then asked once per batch to answer the pulls that this woke."""

    @property
    def holding(self) -> int:
        """How many pulls are held; nobody is told of arrivals while none is."""
        ...

    def arrived(self, topic: str, queue_id: int, first_offset: int, tags_codes: Sequence[int]) -> None:
        """Messages from `first_offset` on became readable."""
        ...

    def answer_arrivals(self) -> None:
        """Answer what the arrivals of this batch woke."""
        ...


class NoReaders:
    """Stands in until the reading side is there (while the store recovers)."""

    holding = 0

    def arrived(self, topic: str, queue_id: int, first_offset: int, tags_codes: Sequence[int]) -> None:
        raise AssertionError("nothing is held here")

    def answer_arrivals(self) -> None:
        raise AssertionError("nothing is held here")


class Dispatch:
    """Makes entries visible. The index may be None (switched off)."""

    def __init__(self, index: KeyIndexWriter | None) -> None:
        self._index = index
        self.readers: Readers = NoReaders()
        self._held: list[IndexEntry] = []
        """Entries of messages that are visible although an earlier one waits for its flush."""
        self._held_from = 0

    def appear(self, entries: Sequence[Entry], visible_below: int) -> None:
        """Make `entries`, in log order, readable, and wake who waits for them. All below `visible_below` is readable then."""
        readers = self.readers
        index: list[IndexEntry] = []
        arrivals: Arrivals | None = {} if readers.holding else None
        for entry in entries:
            entry.appear(index, arrivals)
        if self._index is not None:
            if self._held or (index and index[-1][1] >= visible_below):
                index = self._in_log_order(index, visible_below)
            if index:
                self._index.put(index)
        if arrivals:
            self._wake(readers, arrivals)

    def _in_log_order(self, index: list[IndexEntry], visible_below: int) -> list[IndexEntry]:
        """Return the entries below a position, in log order, and hold the others.

        Recovery takes the newest entry in the files as proof of all before it.
        """
        self._held += index
        if visible_below == self._held_from:
            return []
        self._held_from = visible_below
        self._held.sort(key=_position_of)
        first = bisect_left(self._held, visible_below, key=_position_of)
        ready, self._held = self._held[:first], self._held[first:]
        return ready

    def _wake(self, readers: Readers, arrivals: Arrivals) -> None:
        try:
            for queue, tags_codes in arrivals.items():
                readers.arrived(queue.topic, queue.queue_id, queue.max_offset - len(tags_codes), tags_codes)
            readers.answer_arrivals()
        except Exception:  # noqa: BLE001 - whatever fails on the reading side, what was stored is still answered
            _log.exception("held pulls could not be answered")
