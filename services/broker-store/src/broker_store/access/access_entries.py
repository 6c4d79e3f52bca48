# ruff: noqa: ARG002 - KeyedEntries says what these arguments are
"""The users, policies and tokens of the log. A derived state.

A record of GANTRY_SYS_ACCESS holds one entry. The state needs no key and decides nothing, so a store keeps it also while access control
is off.
"""

from collections.abc import Hashable, Iterable
from typing import NamedTuple

from broker_store.commit.topics import ACCESS_TOPIC
from broker_store.state_records.keyed_entries import Codec, Kept, KeyedEntries
from gantry_access.entries.entry import Entry, decode_entry, encode_entry
from gantry_access.errors import UnreadableRecord


class Page(NamedTuple):
    """Some entries for a follower."""

    version: int
    """The version up to which it goes."""
    entries: list[bytes]
    """Encoded, oldest first."""
    has_more: bool


class AccessEntries(KeyedEntries[Entry]):
    """All entries. About a kilobyte each, bounded by the users and tokens that administrators make."""

    def __init__(self) -> None:
        codec = Codec(encode_entry, decode_entry, UnreadableRecord, "users and policies")
        self._came: dict[Hashable, int] = {}
        """The version at which each entry came, in the order of versions."""
        self.version = 0
        """Grows with every entry that replaces another one or is new."""
        super().__init__("access", ACCESS_TOPIC, codec)

    def apply(self, entry: Entry, position: int) -> bool:
        """As KeyedEntries, and count the version."""
        if not super().apply(entry, position):
            return False
        self.version += 1
        self._came.pop(entry.key, None)
        self._came[entry.key] = self.version
        return True

    def replaces(self, entry: Entry, position: int, kept: Kept[Entry]) -> bool:
        """Whether an entry is newer, by the stamps that all stores agree on."""
        return entry.replaces(kept.entry)

    def drop(self, keys: Iterable[Hashable]) -> None:
        """Forget entries that count no more, such as tokens that ended long ago."""
        gone = list(keys)
        super().drop(gone)
        for key in gone:
            self._came.pop(key, None)

    def clear(self) -> None:
        """Forget every entry."""
        super().clear()
        self._came, self.version = {}, 0

    def since(self, version: int, size_max: int) -> Page:
        """Return the entries that came after a version, up to about `size_max` bytes."""
        newer: list[tuple[int, Hashable]] = []
        for key, came in reversed(self._came.items()):
            if came <= version:
                break
            newer.append((came, key))
        found: list[bytes] = []
        size = 0
        while newer:
            version, key = newer.pop()
            data = encode_entry(self._kept[key].entry)
            found.append(data)
            size += len(data)
            if size >= size_max:
                return Page(version, found, bool(newer))
        return Page(self.version, found, has_more=False)
