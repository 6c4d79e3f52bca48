"""Finds messages that a group has not seen, and reads those to be delivered. Handles one queue at a time. Leases nothing.

Reads never wait for the disk unless allowed. Otherwise `Cold` names the bytes to wait for.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from broker_store.filters.compiled import compile_or_refuse
from broker_store.leases.lease_table.lease_table import Found, LeaseTable
from broker_store.leases.lease_table.runs import Kind, Run
from broker_store.leases.note_bodies import GroupFilter
from broker_store.log.consume_queues.consume_queue import HOLE_SIZE
from broker_store.log.consume_queues.unit_claims import Claims, check_record
from broker_store.log.errors import DamagedRecord, LogError, PositionRemoved
from broker_store.metrics.store_metrics import StoreMetrics
from broker_store.ports import LogReader, QueueReader
from broker_store.reading.filtered.filtered_scan import properties_at
from gantry_chassis.logs.structured import get_logger
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import MalformedExpression, RefusedRequest
from gantry_wire.messages.properties import RETRY_TOPIC, SHARDING_KEY, find_property
from gantry_wire.records.message_record import decode_record
from gantry_wire.records.units import CONSUME_QUEUE_UNIT, CONSUME_QUEUE_UNIT_BYTES
from gantry_wire.subscription import TAG, TagFilter

LOOK_MAX = 4096
"""Messages checked per receive and queue, where a filter or keys require a check of each."""
LOOK_STEPS_MAX = 32 * 1024
"""Work per receive on checks, over all its queues, in steps of `SqlFilter.steps`: about 8 ms.

The next receive continues.
"""
RECORD_STEPS = 16
"""Cost of reading a single record, in such steps."""
SLICE = 256
READ_BYTES_MAX = 256 * 1024

Unit = tuple[int, int, int]
MessagePlace = tuple[int, int, int]
"""Offset of a message, position and size of its record."""

_log = get_logger()


class Cold(Exception):
    """Some bytes are not in memory."""

    def __init__(self, position: int, size: int) -> None:
        super().__init__(position, size)
        self.position, self.size = position, size


@dataclass(slots=True)
class Repairs:
    """What a receive of a replica knows about damaged records: `Cold` names one that was not tried yet."""

    tried: set[int] = field(default_factory=set[int])
    """Positions whose records were asked for."""
    awaits: bool = False
    """No replica that may have one of them answered. The receive waits for no other one, and leaves such messages leased: they are due again later."""

    def wants(self, position: int) -> bool:
        """Whether a record is to be asked for."""
        return not self.awaits and position not in self.tried


class Wanted(NamedTuple):
    """A group's compiled filter. `key` names the property that holds a message's key, if any."""

    tags: TagFilter
    matches: Callable[[bytes], bool] | None
    key: bytes
    is_retry: bool
    """Whether these messages came back, so that earlier tries count."""
    steps: int
    """Cost of checking one message."""

    @property
    def by_tag_alone(self) -> bool:
        """Whether the unit shows that a message is wanted, but for another tag with the same hash."""
        return self.matches is None and not self.key

    @property
    def is_plain(self) -> bool:
        """Whether every message is wanted without a check."""
        return self.tags.codes is None and self.by_tag_alone


def wanted_of(chosen: GroupFilter, *, in_order: bool, is_retry: bool) -> Wanted:
    """Compile a filter. Raises RefusedRequest (SUBSCRIPTION_PARSE_FAILED) when it cannot be parsed."""
    key = key_property(in_order=in_order, is_retry=is_retry)
    if is_retry:  # a message that came back is redelivered whatever the filter is now
        return Wanted(TagFilter.parse(None), None, key, is_retry=True, steps=RECORD_STEPS)
    if chosen.kind != TAG:
        sql = compile_or_refuse(chosen.kind, chosen.expression)
        return Wanted(TagFilter.parse(None), sql.matches, key, is_retry=False, steps=RECORD_STEPS + sql.steps)
    try:
        tags = TagFilter.parse(chosen.expression.strip())
    except MalformedExpression as error:
        raise RefusedRequest(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from error
    return Wanted(tags, None, key, is_retry=False, steps=RECORD_STEPS if key else 1)


def key_property(*, in_order: bool, is_retry: bool) -> bytes:
    """Return the name of the property that holds a message's key, empty where messages have none."""
    if is_retry:
        return RETRY_TOPIC.encode()
    return SHARDING_KEY.encode() if in_order else b""


class Scanner:
    """Reads one store's queues and log."""

    def __init__(self, log: LogReader, metrics: StoreMetrics) -> None:
        self._log = log
        self._metrics = metrics
        self.repairs: Repairs | None = None
        """Those of the receive that runs, None where it leaves damaged records out."""

    @property
    def awaits_repair(self) -> bool:
        """Whether a damaged message may be readable later."""
        return self.repairs is not None and self.repairs.awaits

    def look(
        self,
        queue: QueueReader,
        table: LeaseTable,
        wanted: Wanted,
        count: int,
        steps_left: int,
        *,
        may_wait: bool,
    ) -> int:
        """Show the table the next messages, until `count` more are wanted or enough were checked.

        Returns the rest of `steps_left`.
        """
        looked = 0
        before = table.runs.count
        while (
            not table.is_full and looked < LOOK_MAX and table.runs.count - before < count and steps_left > 0
        ):
            start, end = table.unseen.first
            end = min(queue.max_offset, queue.max_offset if end is None else end)
            if start < queue.min_offset:
                table.unseen.skip_to(queue.min_offset)
                continue
            if start >= end:
                break
            if wanted.is_plain:
                size = min(end - start, count)
                table.see_all(start, size)
            else:
                size = min(end - start, SLICE, max(steps_left // wanted.steps, 1))
                size = self._look_closely(queue, table, wanted, start, size, may_wait=may_wait)
                steps_left -= size * wanted.steps
            looked += size
        return steps_left

    def _look_closely(
        self, queue: QueueReader, table: LeaseTable, wanted: Wanted, start: int, count: int, *, may_wait: bool
    ) -> int:
        units = _units(queue, start, count)
        if not units:
            table.see(start, start + 1, [])
            return 1
        found: list[Found] = []
        codes = wanted.tags
        named = {name.encode() for name in codes.names}
        for number, (position, size, code) in enumerate(units):
            if size == HOLE_SIZE or size <= 0 or not codes.matches(code):
                continue
            data = self.read_record(queue, (start + number, position, size), may_wait=may_wait)
            if data is None and self.awaits_repair and wanted.by_tag_alone:
                found.append((start + number, "", 0))  # it is due, and stays leased until it can be read
            properties = None if data is None else properties_at(data, 0, size)
            if data is None or properties is None:
                continue
            if named and find_property(properties, b"TAGS") not in named:
                continue  # another tag with the same hash
            if wanted.matches is not None and not wanted.matches(properties):
                continue
            tries = reconsume_times_at(data) if wanted.is_retry else 0
            found.append((start + number, _key_in(properties, wanted.key), tries))
        table.see(start, start + len(units), found)
        return len(units)

    def key_at(self, queue: QueueReader, offset: int, name: bytes, *, may_wait: bool) -> str:
        """Return the key of a message, the property of this name; "" for a damaged or removed one. Raises Cold."""
        for place in self.places(queue, Run(offset, 1, Kind.DUE)):
            data = self.read_record(queue, place, may_wait=may_wait)
            properties = None if data is None else properties_at(data, 0, place[2])
            if properties is not None:
                return _key_in(properties, name)
        return ""

    def places(self, queue: QueueReader, run: Run) -> list[MessagePlace]:
        """Return where a run's messages lie, without holes and removed ones."""
        found: list[MessagePlace] = []
        mask, first = run.mask, run.first
        removed_below = self._log.min_position
        count = mask.bit_length()
        at = 0
        while at < count:
            units = _units(queue, first + at, count - at)
            if not units:
                at += 1
                continue
            for position, size, _code in units:
                if mask >> at & 1 and 0 < size != HOLE_SIZE and position >= removed_below:
                    found.append((first + at, position, size))
                at += 1
        return found

    def read_all(
        self, queue: QueueReader, places: list[MessagePlace], *, may_wait: bool
    ) -> tuple[list[int], list[bytes]]:
        """Return the offsets of messages and their records, without damaged ones. Raises Cold."""
        position, end = places[0][1], places[-1][1] + places[-1][2]
        total = sum([size for _offset, _position, size in places])
        if position < end and (end - position == total or end - position <= READ_BYTES_MAX):
            data = self._read_whole(position, end - position, may_wait=may_wait)
            parts = None if data is None else self._parts(queue, data, places, total)
            if parts is not None:
                return [offset for offset, _position, _size in places], parts
        offsets, records = list[int](), list[bytes]()
        for place in places:
            record = self.read_record(queue, place, may_wait=may_wait)
            if record is not None:
                offsets.append(place[0])
                records.append(record)
        return offsets, records

    def _parts(
        self, queue: QueueReader, data: bytes, places: list[MessagePlace], total: int
    ) -> list[bytes] | None:
        """Return the records in the bytes of a stretch. None when a damaged unit names others."""
        start = places[0][1]
        parts = [data]
        if len(data) != total:
            parts = [data[at - start : at - start + size] for _offset, at, size in places]
        if places[0][0] < queue.old_end:
            try:
                Claims(queue, *zip(*places, strict=True)).check(parts)
            except DamagedRecord:
                return None
        return parts

    def read_record(self, queue: QueueReader, place: MessagePlace, *, may_wait: bool) -> bytes | None:
        """Return a message's record, None when it is damaged or gone, or not the one its unit names. Raises Cold."""
        offset, position, size = place
        try:
            return self.read_whole_record(queue, place, may_wait=may_wait)
        except PositionRemoved:
            return None
        except LogError:  # damaged, or a unit that points to no record or to another
            if not may_wait or (self.repairs is not None and self.repairs.wants(position)):
                raise Cold(position, size) from None
            self.leave_out(queue, offset)
            return None

    def read_whole_record(self, queue: QueueReader, place: MessagePlace, *, may_wait: bool) -> bytes:
        """Return a message's record. Raises Cold, and what a read raises: DamagedRecord also where it is not the one that its unit names."""
        offset, position, size = place
        data = self._log.read(position, size) if may_wait else self._log.read_nowait(position, size)
        if data is None:
            raise Cold(position, size)
        if offset < queue.old_end:
            check_record(queue, offset, position, size, data)
        return data

    def leave_out(self, queue: QueueReader, offset: int) -> None:
        """Report that a damaged message is left out."""
        self._metrics.damaged_records += 1
        _log.error(
            "damaged records are left out of a reply",
            topic=queue.topic, queue_id=queue.queue_id, offset=offset, records=1,
        )  # fmt: skip

    def warm(self, position: int, size: int) -> None:
        """Bring bytes into memory, in a thread that may wait for the disk. Raises what `read` raises."""
        self._log.read(position, size)

    def _read_whole(self, position: int, size: int, *, may_wait: bool) -> bytes | None:
        """Read a stretch at once. None when it must be read record by record."""
        try:
            data = self._log.read(position, size) if may_wait else self._log.read_nowait(position, size)
        except LogError:
            return None
        if data is None:
            raise Cold(position, size)
        return data


def _key_in(properties: bytes, name: bytes) -> str:
    key = find_property(properties, name) if name else None
    return key.decode(errors="replace") if key else ""


def reconsume_times_at(record: bytes) -> int:
    """Return how often the message of a record was delivered before it came back.

    A client may have sent a negative number.
    """
    return max(decode_record(record, check_crc=False).reconsume_times, 0)


def _units(queue: QueueReader, offset: int, count: int) -> list[Unit]:
    units = queue.read(offset, count)
    whole = len(units) // CONSUME_QUEUE_UNIT_BYTES * CONSUME_QUEUE_UNIT_BYTES
    return list(CONSUME_QUEUE_UNIT.iter_unpack(units[:whole]))
