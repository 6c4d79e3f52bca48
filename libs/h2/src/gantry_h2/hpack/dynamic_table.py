"""The dynamic table of one direction of a connection (RFC 7541, 2.3.2 and 4)."""

from collections import deque

from gantry_h2.hpack.errors import HpackError
from gantry_h2.hpack.static_table import STATIC_TABLE, Header, size_of


class DynamicTable:
    """Entries, the newest first. The oldest ones leave when it becomes too large."""

    def __init__(self, size_max: int) -> None:
        """`size_max` is in bytes, as RFC 7541 counts them."""
        self.size_max = size_max
        self.size = 0
        self.version = 0
        """Grows with each change: what was decoded without changing the table is the same as long as this is."""
        self._entries = deque[Header]()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, index: int) -> Header:
        """Return the entry with an index of both tables. Raises HpackError if there is none."""
        if 0 < index <= len(STATIC_TABLE):
            return STATIC_TABLE[index - 1]
        place = index - len(STATIC_TABLE) - 1
        if not 0 <= place < len(self._entries):
            raise HpackError(f"index {index} names no header")
        return self._entries[place]

    def add(self, name: bytes, value: bytes) -> None:
        """Add an entry. One that is larger than the table empties it (RFC 7541, 4.4)."""
        self.version += 1
        self._entries.appendleft((name, value))
        self.size += size_of(name, value)
        self._evict()

    def resize(self, size_max: int) -> None:
        """Change how large it may be, in bytes."""
        self.version += 1
        self.size_max = size_max
        self._evict()

    def _evict(self) -> None:
        while self.size > self.size_max:
            self.size -= size_of(*self._entries.pop())
