"""Makes messages visible: appends queue units, indexes keys, wakes waiting readers. Never decides about durability."""

from collections.abc import Sequence

from broker_store.commit.message import Arrivals, Entry, IndexEntry
from broker_store.commit.visible.store_events import Readers, StoreEvents
from broker_store.commit.visible.visible_keys import VisibleKeys
from gantry_chassis.logs.structured import get_logger

_log = get_logger()


class Dispatch:
    """Makes entries visible."""

    def __init__(self, keys: VisibleKeys | None, events: StoreEvents) -> None:
        self.keys = keys
        """None when the index is switched off."""
        self._events = events

    def make_visible(self, entries: Sequence[Entry], visible_below: int) -> None:
        """Make `entries` readable, in log order, and wake their readers.

        Everything below `visible_below` is then readable.
        """
        readers = self._events.readers
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
