"""Answers of a leader with asynchronous replication: a plain send is answered once the leader's own disk has it.

Readers see it when the group has confirmed it, as always, so a takeover takes nothing back that anybody has read. It may take what was answered in
the moment before it. So a leader answers alone only with its lease: without it another replica may lead already, and then the group decides.
"""

from collections import deque
from collections.abc import Callable, Sequence

from broker_store.commit.message import Entry, Mode
from broker_store.commit.record_writer import RecordWriter


class AloneAnswers:
    """The sends of one leader that its own disk answers."""

    def __init__(self, records: RecordWriter, has_lease: Callable[[], bool]) -> None:
        self._records, self._has_lease = records, has_lease
        self._waiting: deque[tuple[int, Sequence[Entry]]] = deque()
        """Entries by the end of their batch."""

    def written(self, end: int, entries: Sequence[Entry]) -> None:
        """Take a batch that was written. A sync of it was requested."""
        now = [entry for entry in entries if entry.mode == Mode.ALONE_WRITTEN]
        if now and self._has_lease():
            self._answer(now)
        later = [entry for entry in entries if entry.mode == Mode.ALONE]
        if later:
            self._waiting.append((end, later))

    def flushed(self, position: int) -> None:
        """Take that the leader's own log is durable below a position."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= position:
            _, entries = waiting.popleft()
            if self._has_lease():
                self._answer(entries)

    def _answer(self, entries: Sequence[Entry]) -> None:
        """Answer entries. What the group says of them later meets nobody who waits."""
        for entry in entries:
            entry.answer(self._records)
