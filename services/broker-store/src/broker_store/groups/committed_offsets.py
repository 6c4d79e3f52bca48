# ruff: noqa: ARG002 - the Protocol Derived says what these arguments are
"""The committed offsets of the log: what every durable record of GANTRY_SYS_COMMITTED says together. A derived state.

The table of offsets in memory is ahead of it by the records under way. The log holds all of it from the start of the last complete dump on:
`pin` keeps the log from there. Before retention deletes that dump, the store writes another one.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from broker_store.commit.topics import COMMITTED_TOPIC
from broker_store.derived import ReadLog
from broker_store.groups.offset_rows import NO_ORIGIN, DumpPart, Key, OffsetRows, Origin, decode_rows
from broker_store.log.commit_log.scan import ScannedRecord
from broker_store.log.errors import LogError
from gantry_chassis.logs.structured import get_logger
from gantry_wire.errors import WireError
from gantry_wire.records.message_record import decode_record

OFFSETS_PER_SLICE = 4096
"""Offsets per part of a snapshot: about a millisecond."""
NOT_IN_LOG = 0
"""Where the offsets begin that only a snapshot has: the next retention has them written again."""
_TOPIC = COMMITTED_TOPIC.encode()

_log = get_logger()


class _Dump(NamedTuple):
    """A dump that has begun."""

    first: int
    """The number of its first record."""
    part: int
    """The last part that was seen."""
    position: int
    """Where its first record lies."""
    origin: Origin | None = None
    """The files that it takes over."""


class _Head(msgspec.Struct):
    """The first line of a snapshot."""

    number: int
    origin: tuple[str, str]
    begin: int | None
    dump: _Dump | None


_decode_head = msgspec.json.Decoder(_Head).decode
_decode_row = msgspec.json.Decoder(tuple[str, str, dict[int, int]]).decode


class CommittedOffsets:
    """All offsets by (topic, group) and queue. About 100 bytes an offset."""

    name = "committed"
    topics = frozenset({COMMITTED_TOPIC})

    def __init__(self) -> None:
        self._offsets: dict[Key, dict[int, int]] = {}
        self.number = 0
        """The number of the newest record, 0 if there never was one."""
        self.origin = NO_ORIGIN
        """The files that the log has taken over."""
        self._begin: int | None = None
        """The log holds every offset from here on. None without a record."""
        self._dump: _Dump | None = None
        self.unreadable = 0
        """Records that could not be read since the opening."""

    @property
    def taking(self) -> Origin | None:
        """The files that the log has taken over in part: a dump of theirs has begun, and its end is missing."""
        return None if self._dump is None else self._dump.origin

    # --- the state -------------------------------------------------------------------------------------------

    def find(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return an offset, None if the log has none."""
        return self._offsets.get((topic, group), {}).get(queue_id)

    def of(self, group: str, topic: str) -> Mapping[int, int]:
        """Return a group's offsets in a topic by queue id."""
        return self._offsets.get((topic, group), {})

    def all(self) -> Iterator[tuple[str, str, Mapping[int, int]]]:
        """Yield (topic, group, offsets by queue id)."""
        for (topic, group), of_queues in self._offsets.items():
            yield topic, group, of_queues

    def apply(self, rows: OffsetRows, position: int) -> None:
        """Take the content of a record. Records come in log order; one that comes again is followed by all after it."""
        for topic, group, offsets in rows.rows:
            self._apply_row((topic, group), offsets)
        self.number = max(self.number, rows.number)
        if self._begin is None:
            self._begin = position
        if rows.dump is not None:
            self._note_dump(DumpPart(*rows.dump), rows.origin, position)

    def _apply_row(self, key: Key, offsets: Mapping[int, int | None]) -> None:
        of_queues = self._offsets.setdefault(key, {})
        for queue_id, offset in offsets.items():
            if offset is None:
                of_queues.pop(queue_id, None)
            else:
                of_queues[queue_id] = offset
        if not of_queues:
            del self._offsets[key]

    def _note_dump(self, dump: DumpPart, origin: tuple[str, str] | None, position: int) -> None:
        """Count the parts of a dump. One that lacks a part does not count: the store could not write it, or damage took it."""
        known = self._dump
        if dump.part == 1 and (known is None or known.first != dump.first):
            taking = None if origin is None else Origin(*origin)
            known = self._dump = _Dump(dump.first, 1, position, taking)
        elif known is not None and known.first == dump.first and dump.part == known.part + 1:
            known = self._dump = known._replace(part=dump.part)
        else:
            return
        if dump.is_last:
            self._begin, self._dump = known.position, None
            self.origin = self.origin if origin is None else Origin(*origin)

    # --- Derived ---------------------------------------------------------------------------------------------

    def wants(self, topic: str, properties: bytes) -> bool:
        """See Derived."""
        return topic == COMMITTED_TOPIC

    def take(self, record: ScannedRecord, read: ReadLog) -> None:
        """Replay a record. One that cannot be read is reported and changes nothing: its groups have the offsets of before."""
        position, size, topic = record[0], record[1], record[7]
        if topic != _TOPIC:
            return
        try:
            rows = decode_rows(decode_record(read(position, size)).body)
        except (LogError, WireError) as error:
            self.unreadable += 1
            _log.error("a record of committed offsets cannot be read", position=position, error=str(error))
            return
        self.apply(rows, position)

    def topic_deleted(self, topic: str) -> None:
        """Do nothing: a record says that the offsets of a deleted topic are forgotten."""

    def slices(self, position: int) -> Iterator[bytes]:
        """Yield the offsets in parts. What changes meanwhile has a record above the position."""
        yield msgspec.json.encode(_Head(self.number, self.origin, self._begin, self._dump)) + b"\n"
        lines: list[bytes] = []
        count = 0
        for key in list(self._offsets):
            of_queues = self._offsets.get(key)
            if of_queues is None:
                continue
            lines.append(msgspec.json.encode((*key, of_queues)) + b"\n")
            count += len(of_queues)
            if count >= OFFSETS_PER_SLICE:
                yield b"".join(lines)
                lines, count = [], 0
        yield b"".join(lines)

    def load(self, data: bytes | None, position: int) -> bool:
        """See Derived."""
        self._empty()
        if data is None:
            return True
        try:
            self._load(data)
        except (ValueError, msgspec.DecodeError):
            self._empty()
            return False
        return True

    def _empty(self) -> None:
        self._offsets, self.number, self.origin, self._begin, self._dump = {}, 0, NO_ORIGIN, None, None

    def _load(self, data: bytes) -> None:
        head, *lines = data.splitlines()
        found = _decode_head(head)
        for line in lines:
            topic, group, of_queues = _decode_row(line)
            self._offsets[topic, group] = of_queues
        self.number, self.origin, self._begin = found.number, Origin(*found.origin), found.begin
        self._dump = found.dump

    def adopt(self, data: bytes) -> None:
        """Take what a snapshot holds before the log is replayed from its start.

        The log holds every offset itself, unless another program removed some of it.
        """
        if not self.load(data, 0):
            _log.warning("a snapshot of committed offsets cannot be read")
        self._dump = None
        if self.number:
            self._begin = NOT_IN_LOG

    def pin(self) -> int | None:
        """Return where the log begins to hold every offset."""
        return self._begin
