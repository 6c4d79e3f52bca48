"""Which entries came from other stores a moment ago.

A tool of RocketMQ that changes a whole cluster sends the change to one store after the other. The first one stores it, and the others have
it before they are asked. What they are asked to make or delete then exists, or is gone: that is a success, not a refusal.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable

from gantry_access.entries.entry import Entry, Key

RECENT_SECONDS = 10.0
ENTRIES_MAX = 10_000


class Followed:
    """The keys of these entries, for some seconds."""

    def __init__(self, steady: Callable[[], float]) -> None:
        """`steady`: seconds of a clock that does not step."""
        self._steady = steady
        self._came_s: OrderedDict[Key, float] = OrderedDict()

    def note(self, entries: Iterable[Entry]) -> None:
        """Note what came now."""
        now_s = self._steady()
        for entry in entries:
            self._came_s[entry.key] = now_s
            self._came_s.move_to_end(entry.key)
        while self._came_s and (
            len(self._came_s) > ENTRIES_MAX or not self._is_recent(next(iter(self._came_s)))
        ):
            self._came_s.popitem(last=False)

    def has(self, key: Key) -> bool:
        """Whether the entry of a key came from another store within the last seconds."""
        return key in self._came_s and self._is_recent(key)

    def _is_recent(self, key: Key) -> bool:
        return self._steady() - self._came_s[key] <= RECENT_SECONDS
