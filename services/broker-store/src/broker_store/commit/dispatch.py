# ruff: noqa: ARG002, D102 - the Protocols say what these methods promise
"""Makes messages visible: appends queue units, indexes keys, wakes waiting readers. Never decides about durability."""

from collections.abc import Sequence
from typing import Protocol

from broker_store.commit.message import Arrivals, Entry, IndexEntry
from broker_store.commit.visible_keys import VisibleKeys
from gantry_chassis.logs import get_logger

_log = get_logger()


class Readers(Protocol):
    """The reading side. Collects the arrivals of a batch, then answers the pulls they wake."""

    @property
    def held_count(self) -> int:
        """Number of held pulls and receives. Arrivals are reported only while it is above 0."""
        ...

    def arrived(self, topic: str, queue_id: int, first_offset: int, tags_codes: Sequence[int]) -> None:
        """Record that messages from `first_offset` on are readable."""
        ...

    def answer_arrivals(self) -> None:
        """Answer the pulls that the arrivals of this batch woke."""
        ...


class NoReaders:
    """Used until the reading side exists, while the store recovers."""

    held_count = 0

    def arrived(self, topic: str, queue_id: int, first_offset: int, tags_codes: Sequence[int]) -> None:
        raise AssertionError("nothing is held here")

    def answer_arrivals(self) -> None:
        raise AssertionError("nothing is held here")


class Dispatch:
    """Makes entries visible."""

    def __init__(self, keys: VisibleKeys | None) -> None:
        self.keys = keys
        """None when the index is switched off."""
        self.readers: Readers = NoReaders()

    def make_visible(self, entries: Sequence[Entry], visible_below: int) -> None:
        """Make `entries` readable, in log order, and wake their readers.

        Everything below `visible_below` is then readable.
        """
        readers = self.readers
        index: list[IndexEntry] = []
        arrivals: Arrivals | None = {} if readers.held_count else None
        for entry in entries:
            entry.make_visible(index, arrivals)
        if self.keys is not None:
            self.keys.put(index, visible_below)
        if arrivals:
            self._wake(readers, arrivals)

    def _wake(self, readers: Readers, arrivals: Arrivals) -> None:
        try:
            for queue, tags_codes in arrivals.items():
                readers.arrived(queue.topic, queue.queue_id, queue.max_offset - len(tags_codes), tags_codes)
            readers.answer_arrivals()
        except Exception:  # noqa: BLE001 - stored messages are answered whatever fails on the reading side
            _log.exception("held pulls could not be answered")
