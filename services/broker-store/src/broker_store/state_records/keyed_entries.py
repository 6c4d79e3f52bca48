# ruff: noqa: ARG002 - the Protocol Derived says what these arguments are
"""A derived state of entries: the newest entry of every key, and where its record is. One record holds one entry.

It never lets go of the log's only record of an entry: `pin` holds the segment until the entry is appended again.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from struct import Struct
from typing import Generic, NamedTuple, Protocol, TypeVar

from broker_store.derived import ReadLog
from broker_store.log.commit_log.scan import ScannedRecord
from broker_store.log.errors import LogError
from gantry_chassis.logs.structured import get_logger
from gantry_wire.errors import WireError
from gantry_wire.records.message_record import decode_record

ENTRIES_PER_SLICE = 512
"""Entries per part of a snapshot: about a millisecond."""
NOT_IN_LOG = 0
"""The position of an entry that only a snapshot has. The next retention appends it again."""
_ROW = Struct(">qI")
"""Position and size of an encoded entry, which follows."""

_log = get_logger()


class StateEntry(Protocol):
    """One entry: the content of a key, or its deletion. Entries are equal where their content is."""

    @property
    def key(self) -> Hashable:
        """What this entry replaces: an earlier entry of the same key."""
        ...


E = TypeVar("E", bound=StateEntry)


class Codec(NamedTuple, Generic[E]):
    """How entries of one kind of state are stored."""

    encode: Callable[[E], bytes]
    decode: Callable[[bytes], E]
    """Raises ValueError or one of `unreadable`."""
    unreadable: type[Exception]
    what: str
    """What the entries are, for log events: "users and policies"."""


class Kept(NamedTuple, Generic[E]):
    """An entry with the position of its newest record."""

    entry: E
    position: int


class KeyedEntries(Generic[E]):
    """All entries of one topic, by key."""

    def __init__(self, name: str, topic: str, codec: Codec[E]) -> None:
        """`name` is the derived state's, `topic` the one of its records."""
        self.name = name
        self.topic = topic
        self.topics = frozenset({topic})
        self.codec = codec
        self._topic = topic.encode()
        self._kept: dict[Hashable, Kept[E]] = {}
        self.unreadable = 0
        """Records that could not be read since the opening."""

    def __len__(self) -> int:
        return len(self._kept)

    # --- the state -------------------------------------------------------------------------------------------

    def entries(self) -> list[E]:
        """Return every entry, deletions too."""
        return [kept.entry for kept in self._kept.values()]

    def find(self, key: Hashable) -> E | None:
        """Return the entry of a key, which may be a deletion."""
        kept = self._kept.get(key)
        return None if kept is None else kept.entry

    def kept(self) -> dict[Hashable, Kept[E]]:
        """Return every entry with the place of its newest record."""
        return dict(self._kept)

    def apply(self, entry: E, position: int) -> bool:
        """Take the entry of a record. False if a newer one is known, or the same, whose record is then this one."""
        kept = self._kept.get(entry.key)
        if kept is not None and kept.entry == entry:
            self._kept[entry.key] = Kept(kept.entry, max(kept.position, position))
            return False
        if kept is not None and not self.replaces(entry, position, kept):
            return False
        self._kept[entry.key] = Kept(entry, position)
        return True

    def replaces(self, entry: E, position: int, kept: Kept[E]) -> bool:
        """Whether an entry counts, and not the kept one of its key: in whatever order they come."""
        return position > kept.position

    def drop(self, keys: Iterable[Hashable]) -> None:
        """Forget entries that count no more."""
        for key in keys:
            self._kept.pop(key, None)

    def clear(self) -> None:
        """Forget every entry."""
        self._kept = {}

    def below(self, position: int) -> list[E]:
        """Return entries whose newest record lies below a position."""
        return [kept.entry for kept in self._kept.values() if kept.position < position]

    # --- Derived ---------------------------------------------------------------------------------------------

    def wants(self, topic: str, properties: bytes) -> bool:
        """See Derived."""
        return topic == self.topic

    def take(self, record: ScannedRecord, read: ReadLog) -> None:
        """Replay a record. One that cannot be read is reported and changes nothing."""
        position, size, topic = record[0], record[1], record[7]
        if topic != self._topic:
            return
        try:
            entry = self.codec.decode(decode_record(read(position, size)).body)
        except (LogError, WireError, ValueError, self.codec.unreadable) as error:
            self.unreadable += 1
            _log.error(f"a record of {self.codec.what} cannot be read", position=position, error=str(error))
            return
        self.apply(entry, position)

    def topic_deleted(self, topic: str) -> None:
        """Do nothing: the topic of entries is never deleted."""

    def slices(self, position: int) -> Iterator[bytes]:
        """Yield the entries in parts. What changes meanwhile has a record above the position."""
        keys = list(self._kept)
        for at in range(0, len(keys), ENTRIES_PER_SLICE):
            rows: list[bytes] = []
            for key in keys[at : at + ENTRIES_PER_SLICE]:
                kept = self._kept.get(key)
                if kept is not None:
                    data = self.codec.encode(kept.entry)
                    rows += (_ROW.pack(kept.position, len(data)), data)
            yield b"".join(rows)

    def load(self, data: bytes | None, position: int) -> bool:
        """See Derived."""
        self.clear()
        try:
            for kept in self._rows(data or b""):
                self.apply(kept.entry, kept.position)
        except (ValueError, self.codec.unreadable):
            self.clear()
            return False
        return True

    def adopt(self, data: bytes) -> None:
        """Take what a snapshot holds before the log is replayed from its start.

        The log holds every entry itself, unless another program removed some of it.
        """
        try:
            for entry, _ in self._rows(data):
                self.apply(entry, NOT_IN_LOG)
        except (ValueError, self.codec.unreadable) as error:
            _log.warning(f"a snapshot of {self.codec.what} cannot be read", error=str(error))

    def pin(self) -> int | None:
        """Return the lowest position of an entry's newest record."""
        return min((kept.position for kept in self._kept.values()), default=None)

    def _rows(self, data: bytes) -> Iterator[Kept[E]]:
        """Yield the entries of a snapshot. Raises ValueError or what the codec raises."""
        at = 0
        while at < len(data):
            if at + _ROW.size > len(data):
                raise ValueError("the snapshot is cut")
            position, size = _ROW.unpack_from(data, at)
            at += _ROW.size
            if at + size > len(data):
                raise ValueError("the snapshot is cut")
            yield Kept(self.codec.decode(data[at : at + size]), position)
            at += size
