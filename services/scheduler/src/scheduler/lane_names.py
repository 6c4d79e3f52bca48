"""The lanes a store's waiting messages are kept in.

Delays (levels, and so many ms) become due in store time, instants by the store's wall clock too; parked messages never do.
"""

from __future__ import annotations

from scheduler.entries import PARKED, Entry

DELAYS, INSTANTS, SET_ASIDE = 0, 1, 2


def lane_of(entry: Entry) -> int:
    """Return the lane of a message."""
    if entry.is_absolute:
        return INSTANTS
    return SET_ASIDE if entry.source == PARKED else DELAYS
