# ruff: noqa: ARG002 - the Protocol Derived says what these arguments are
"""The users, policies and tokens of the log: the newest entry of every key, and where its record is. A derived state.

A record of GANTRY_SYS_ACCESS holds one entry. The state needs no key and decides nothing, so a store keeps it also while access control
is off. It never lets go of the log's only record of an entry: `pin` holds the segment until the entry is appended again.
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from broker_store.commit.topics import ACCESS_TOPIC
from broker_store.derived import ReadLog
from broker_store.log.commit_log.scan import ScannedRecord
from broker_store.log.errors import LogError
from gantry_access.entries.entry import Entry, Key, decode_entry, encode_entry
from gantry_access.errors import UnreadableRecord
from gantry_chassis.logs.structured import get_logger
from gantry_wire.errors import WireError
from gantry_wire.records.message_record import decode_record

ENTRIES_PER_SLICE = 512
"""Entries per part of a snapshot: about a millisecond."""
NOT_IN_LOG = 0
"""The position of an entry that only a snapshot has. The next retention appends it again."""
_ROW = Struct(">qI")
"""Position and size of an encoded entry, which follows."""
_TOPIC = ACCESS_TOPIC.encode()

_log = get_logger()


class Kept(NamedTuple):
    """An entry with the position of its newest record."""

    entry: Entry
    position: int


class Page(NamedTuple):
    """Some entries for a follower."""

    version: int
    """The version up to which it goes."""
    entries: list[bytes]
    """Encoded, oldest first."""
    has_more: bool


class AccessEntries:
    """All entries. About a kilobyte each, bounded by the users and tokens that administrators make."""

    name = "access"
    topics = frozenset({ACCESS_TOPIC})

    def __init__(self) -> None:
        self._kept: dict[Key, Kept] = {}
        self._came: dict[Key, int] = {}
        """The version at which each entry came, in the order of versions."""
        self.version = 0
        """Grows with every entry that replaces another one or is new."""
        self.unreadable = 0
        """Records that could not be read since the opening."""

    def __len__(self) -> int:
        return len(self._kept)

    # --- the state -------------------------------------------------------------------------------------------

    def entries(self) -> Iterable[Entry]:
        """Return every entry, deletions too."""
        return [kept.entry for kept in self._kept.values()]

    def find(self, key: Key) -> Entry | None:
        """Return the entry of a key, which may be a deletion."""
        kept = self._kept.get(key)
        return None if kept is None else kept.entry

    def kept(self) -> dict[Key, Kept]:
        """Return every entry with the place of its newest record."""
        return dict(self._kept)

    def apply(self, entry: Entry, position: int) -> bool:
        """Take the entry of a record. False if a newer one is known, or the same, whose record is then this one."""
        kept = self._kept.get(entry.key)
        if kept is not None and kept.entry == entry:
            self._kept[entry.key] = Kept(kept.entry, max(kept.position, position))
            return False
        if kept is not None and not entry.replaces(kept.entry):
            return False
        self._kept[entry.key] = Kept(entry, position)
        self.version += 1
        self._came.pop(entry.key, None)
        self._came[entry.key] = self.version
        return True

    def drop(self, keys: Iterable[Key]) -> None:
        """Forget entries that count no more, such as tokens that ended long ago."""
        for key in keys:
            self._kept.pop(key, None)
            self._came.pop(key, None)

    def below(self, position: int, count_max: int) -> list[Entry]:
        """Return entries whose newest record lies below a position."""
        found: list[Entry] = []
        for kept in self._kept.values():
            if kept.position < position:
                found.append(kept.entry)
                if len(found) == count_max:
                    break
        return found

    def since(self, version: int, size_max: int) -> Page:
        """Return the entries that came after a version, up to about `size_max` bytes."""
        newer: list[tuple[int, Key]] = []
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

    # --- Derived ---------------------------------------------------------------------------------------------

    def wants(self, topic: str, properties: bytes) -> bool:
        """See Derived."""
        return topic == ACCESS_TOPIC

    def take(self, record: ScannedRecord, read: ReadLog) -> None:
        """Replay a record. One that cannot be read is reported and changes nothing: its user keeps the rights of before, or has none."""
        position, size, topic = record[0], record[1], record[7]
        if topic != _TOPIC:
            return
        try:
            entry = decode_entry(decode_record(read(position, size)).body)
        except (LogError, WireError, UnreadableRecord) as error:
            self.unreadable += 1
            _log.error("a record of users and policies cannot be read", position=position, error=str(error))
            return
        self.apply(entry, position)

    def topic_deleted(self, topic: str) -> None:
        """Do nothing: the topic of entries is never deleted, and policies outlive their topics."""

    def slices(self, position: int) -> Iterator[bytes]:
        """Yield the entries in parts. What changes meanwhile has a record above the position."""
        keys = list(self._kept)
        for at in range(0, len(keys), ENTRIES_PER_SLICE):
            rows: list[bytes] = []
            for key in keys[at : at + ENTRIES_PER_SLICE]:
                kept = self._kept.get(key)
                if kept is not None:
                    data = encode_entry(kept.entry)
                    rows += (_ROW.pack(kept.position, len(data)), data)
            yield b"".join(rows)

    def load(self, data: bytes | None, position: int) -> bool:
        """See Derived."""
        self._kept, self._came, self.version = {}, {}, 0
        try:
            for kept in _rows(data or b""):
                self.apply(*kept)
        except (ValueError, UnreadableRecord):
            self._kept, self._came = {}, {}
            return False
        return True

    def adopt(self, data: bytes) -> None:
        """Take what a snapshot holds before the log is replayed from its start.

        The log holds every entry itself, unless another program removed some of it.
        """
        try:
            for entry, _ in _rows(data):
                self.apply(entry, NOT_IN_LOG)
        except (ValueError, UnreadableRecord) as error:
            _log.warning("a snapshot of users and policies cannot be read", error=str(error))

    def pin(self) -> int | None:
        """Return the lowest position of an entry's newest record."""
        return min((kept.position for kept in self._kept.values()), default=None)


def _rows(data: bytes) -> Iterator[Kept]:
    """Yield the entries of a snapshot. Raises ValueError or UnreadableRecord."""
    at = 0
    while at < len(data):
        if at + _ROW.size > len(data):
            raise ValueError("the snapshot is cut")
        position, size = _ROW.unpack_from(data, at)
        at += _ROW.size
        if at + size > len(data):
            raise ValueError("the snapshot is cut")
        yield Kept(decode_entry(data[at : at + size]), position)
        at += size
