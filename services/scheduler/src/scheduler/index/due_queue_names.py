"""Names the due queues of a store's waiting messages.

Delays (levels and delays in ms) become due in store time. Instants wait for the store's wall clock too. Parked
messages never become due.
"""

from __future__ import annotations

from scheduler.index.entries import PARKED, Entry

DELAYS, INSTANTS, PARKED_MESSAGES = 0, 1, 2


def due_queue_of(entry: Entry) -> int:
    """Return the due queue of a message."""
    if entry.is_absolute:
        return INSTANTS
    return PARKED_MESSAGES if entry.source == PARKED else DELAYS
