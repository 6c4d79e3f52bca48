"""Defines one delayed message and reads it from pull answers without decoding whole records.

Sources number the queues of one store that the scheduler follows: the levels from 0, then the timer queue and the
parked messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from struct import Struct

import msgspec

from gantry_wire.errors import MalformedRecord
from gantry_wire.names import SCHEDULE_TOPIC, TIMER_TOPIC
from gantry_wire.records.message_record import MAGIC_V1, SYS_BORN_HOST_V6, SYS_STORE_HOST_V6, decode_record
from scheduler.system_names import PARKED_TOPIC

LEVELS_MAX = 1024
TIMER, PARKED = LEVELS_MAX, LEVELS_MAX + 1
OFFSET_BITS = 48
OFFSET_MASK = (1 << OFFSET_BITS) - 1
COPIES_MAX = 64
"""Waiting messages found by one id: copies of a client's retries, and moved or rolled messages."""
WAIT_DIGITS_MAX = 15
NEVER_MS = 1 << 60
"""Due time of parked messages, which wait for an order."""

_FIXED = Struct(">iI12xqqi16xq20xi")  # the fields read from a record's fixed part with two IPv4 hosts
_PROPERTIES = re.compile(
    rb"(?:^|\x02)(REAL_TOPIC|REAL_QID|TIMER_OUT_MS|UNIQ_KEY|KEYS|TIMER_DEL_UNIQKEY|TIMER_DELAY_SEC|TIMER_DELAY_MS|__GANTRY_DELAY_MS)\x01([^\x02]+)"
).findall
"""The properties the scheduler reads. The last value of a repeated name wins."""
_LAST = re.compile(
    rb"\x02REAL_TOPIC\x01([^\x01\x02]+)\x02REAL_QID\x01([0-9]{1,9})\x02"
    rb"(?:TIMER_OUT_MS\x01([0-9]{1,18})\x02)?(?:__GANTRY_DELAY_MS\x01([0-9]{1,15})\x02)?\Z"
).match
_REAL_TOPIC = b"\x02REAL_TOPIC\x01"
_UNUSUAL = re.compile(
    rb"\x02(?=[UKT])(?:UNIQ_KEY|KEYS|TIMER_DEL_UNIQKEY|TIMER_DELAY_SEC|TIMER_DELAY_MS)\x01"
).search
_UNIQ_KEY = b"UNIQ_KEY\x01"
_UNIQ_AT = len(_UNIQ_KEY)
_V6 = SYS_BORN_HOST_V6 | SYS_STORE_HOST_V6


class Entry(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """A waiting message. `key` packs its source and offset; `cancels` names the message a cancel record cancels.

    Not a NamedTuple: millions are kept, and the garbage collector would scan tuples, which also cost twice as much to
    build. It holds no container, so `gc=False` is safe.
    """

    due_ms: int
    key: int
    position: int
    topic: str
    queue_id: int
    uniq: bytes
    keys: bytes
    cancels: bytes = b""
    is_absolute: bool = False
    """Scheduled for an instant, not a delay, so the wall clock must have reached it too."""

    @property
    def source(self) -> int:
        """The source the message lies in."""
        return self.key >> OFFSET_BITS

    @property
    def offset(self) -> int:
        """Its offset in the queue of the source."""
        return self.key & OFFSET_MASK


def key_of(source: int, offset: int) -> int:
    """Return the key of an item."""
    return source << OFFSET_BITS | offset


def queue_of(source: int) -> tuple[str, int]:
    """Return topic and queue id of a source."""
    if source == TIMER:
        return TIMER_TOPIC, 0
    return (PARKED_TOPIC, 0) if source == PARKED else (SCHEDULE_TOPIC, source)


def source_of(topic: str, queue_id: int) -> int | None:
    """Return the source of a queue; None when it holds no delayed messages."""
    if topic == SCHEDULE_TOPIC:
        return queue_id if 0 <= queue_id < LEVELS_MAX else None
    return {TIMER_TOPIC: TIMER, PARKED_TOPIC: PARKED}.get(topic) if queue_id == 0 else None


RawItem = tuple[int, int, int, bytes]
"""Offset, position, store time in ms, properties of a record."""


def scan_items(records: bytes) -> Iterator[RawItem]:
    """Yield the needed fields of each record of a pull answer, without reading bodies. Raises MalformedRecord."""
    at, end = 0, len(records)
    unpack, fixed_size = _FIXED.unpack_from, _FIXED.size
    while at < end:
        if end - at < fixed_size:
            raise MalformedRecord(f"{end - at} bytes are too few for a record")
        size, magic, offset, position, sys_flag, store_ms, body_size = unpack(records, at)
        if size < fixed_size or at + size > end:
            raise MalformedRecord(f"record of {size} bytes where {end - at} are left")
        if magic != MAGIC_V1 or sys_flag & _V6:
            record = decode_record(records, at, check_crc=False)
            yield record.queue_offset, record.position, record.store_timestamp, record.properties
        else:
            topic_at: int = at + fixed_size + body_size
            yield offset, position, store_ms, records[topic_at + 3 + records[topic_at] : at + size]
        at += size


def entry_of(item: RawItem, source: int, level_ms: Sequence[int]) -> Entry:
    """Return the entry of a record.

    One without a readable target or time is due at once: the store then reports the reason.
    """
    entry = _plain_entry(item, source, level_ms)
    if entry is not None:
        return entry
    offset, position, store_ms, properties = item
    try:
        take = dict([part.split(b"\x01", 1) for part in properties.split(b"\x02") if part]).get
    except ValueError:  # a part that is not a property; twice as slow
        take = dict(_PROPERTIES(properties)).get
    cancels, is_absolute = b"", False
    if source < LEVELS_MAX:
        wait = take(b"__GANTRY_DELAY_MS", b"")
        is_known = wait.isdigit() and len(wait) <= WAIT_DIGITS_MAX
        due_ms = store_ms + (int(wait) if is_known else level_ms[source])
    elif source == TIMER:
        due = take(b"TIMER_OUT_MS", b"")
        due_ms = int(due) if due.isdigit() and len(due) < 19 else 0
        cancels = take(b"TIMER_DEL_UNIQKEY", b"")
        is_absolute = take(b"TIMER_DELAY_MS") is None and take(b"TIMER_DELAY_SEC") is None
    else:
        due_ms = NEVER_MS
    queue_id = take(b"REAL_QID", b"")
    return Entry(
        due_ms,
        source << OFFSET_BITS | offset,
        position,
        _text(take(b"REAL_TOPIC", b"")),
        int(queue_id) if queue_id.isdigit() and len(queue_id) < 10 else 0,
        take(b"UNIQ_KEY", b""),
        take(b"KEYS", b""),
        cancels,
        is_absolute,
    )


def _plain_entry(item: RawItem, source: int, level_ms: Sequence[int]) -> Entry | None:
    """Return the entry of a record with the usual properties, in half the time of a full parse.

    The store puts target and due time behind the sender's properties. Returns None when anything else is, or could
    be, there.
    """
    offset, position, store_ms, properties = item
    at = properties.rfind(_REAL_TOPIC)
    found = _LAST(properties, at) if at >= 0 else None
    if found is None or not properties.startswith(_UNIQ_KEY) or _UNUSUAL(properties, 1):
        return None
    topic, queue_id, due, wait = found.groups()
    if source < LEVELS_MAX:
        due_ms = store_ms + (level_ms[source] if wait is None else int(wait))
    elif source == TIMER and due is not None:
        due_ms = int(due)
    else:
        return None
    uniq = properties[_UNIQ_AT : properties.index(b"\x02", _UNIQ_AT)]
    key = source << OFFSET_BITS | offset
    return Entry(due_ms, key, position, _text(topic), int(queue_id), uniq, b"", b"", source == TIMER)


@lru_cache(maxsize=4096)
def _text(topic: bytes) -> str:
    """Return a topic's name; all messages of a topic share one object."""
    return topic.decode("utf-8", "replace")
