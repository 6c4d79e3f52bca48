"""Records of decided items: plans their properties, flags, topics and queues, and reads what unit and index hold of them.

Runs once per item when very many are due at once, so what the items of a request share is computed once per
placement.
"""

import re
from collections.abc import Callable
from functools import lru_cache

from broker_store.commit.message import Mode
from broker_store.commit.queues import Queue
from broker_store.commit.stamp import ZEROS_REMARK
from broker_store.commit.targets import Target
from broker_store.config.delay_levels import LevelList
from broker_store.log.commit_log.scan import ZERO_SECTOR
from broker_store.settling.decided.mark import (
    MARK,
    MARK_SUFFIX_BYTES_MAX,
    MARK_SUFFIXES,
    OUTPUTS_MAX,
    Source,
    mark_parts,
)
from broker_store.settling.request.items import Gathered
from gantry_wire.errors import MalformedProperties
from gantry_wire.limits import PROPERTIES_BYTES_MAX
from gantry_wire.messages.properties import (
    GANTRY_SETTLED,
    UNIQ_KEY,
    find_property,
    format_properties,
    tags_code,
)
from gantry_wire.names import SCHEDULE_TOPIC
from gantry_wire.private_requests.settling import SettleItem, SettleOutput, SettleStatus
from gantry_wire.records.message_record import SYS_TRANSACTION_COMMIT, SYS_TRANSACTION_MASK

_END = b"\x02"
_END_BYTE = 2
_UNIQUE_KEY = UNIQ_KEY.encode() + b"\x01"
_OTHER_UNIQUE_KEY = b"\x02" + _UNIQUE_KEY
_UNIQUE_KEY_AT = len(_UNIQUE_KEY)


class CannotPlan(Exception):
    """A decision has no possible records. Holds its SettleStatus."""

    def __init__(self, status: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


Draft = tuple[Queue, Mode, bytes, bytes, int, int, int]
"""A record before placing: queue, mode, body, properties with their mark, system flag, reconsume times, prepared position."""


Plan = tuple[list[Draft], int]
"""All records of one item, adjacent in this order; 1 if a mark record comes first, else 0."""

FindTarget = Callable[[str, int], tuple[Target, Queue]]
"""Returns the target and the queue of (topic, queue id). Raises CannotPlan."""


class Planner:
    """Plans the items of one request in one placement."""

    def __init__(self, source: Source, find_target: FindTarget, marks: tuple[Target, Queue]) -> None:
        self._before, self._behind = mark_parts(source)
        self._find_target = find_target
        self._marks = marks

    def plan(self, gathered: Gathered) -> Plan:
        """Return the records of a decision about an item. Raises CannotPlan."""
        item = gathered.item
        outputs = item.outputs
        if len(outputs) >= OUTPUTS_MAX:
            raise CannotPlan(SettleStatus.BAD_ITEM, f"{len(outputs)} outputs, the limit is {OUTPUTS_MAX - 1}")
        mark = b"%b%d%b" % (self._before, item.offset, self._behind)
        room = PROPERTIES_BYTES_MAX - MARK_SUFFIX_BYTES_MAX - len(mark)
        find = self._find_target
        places = [find(output.topic, output.queue_id) for output in outputs]
        kept = [_properties(output, gathered) for output in outputs]
        total, longest = len(kept), max(map(len, kept), default=room + 1)
        drafts: list[Draft] = []
        if longest > room:
            total += 1
            drafts.append(self._mark_record(item, mark + MARK_SUFFIXES[total][1]))
        suffixes = MARK_SUFFIXES[total]
        number = output_from = len(drafts)
        for output, (target, queue), properties in zip(outputs, places, kept, strict=True):
            number += 1
            if len(properties) <= room:
                properties += mark + suffixes[number]  # noqa: PLW2901 - completes it
            drafts.append(_draft(output, gathered, target, queue, properties))
        return drafts, output_from

    def _mark_record(self, item: SettleItem, properties: bytes) -> Draft:
        target, queue = self._marks
        return queue, target.mode, item.outcome.encode(), properties, 0, 0, 0


def _draft(
    output: SettleOutput, gathered: Gathered, target: Target, queue: Queue, properties: bytes
) -> Draft:
    record = gathered.record
    sys_flag = reconsume_times = position = 0
    if output.body == "item":
        assert record is not None
        body, sys_flag = record.body, record.sys_flag & ~SYS_TRANSACTION_MASK
    else:
        body = output.body_base64 or b""
    if record is not None and output.properties == "item":
        reconsume_times = record.reconsume_times
    if output.reconsume_times is not None:
        reconsume_times = output.reconsume_times
    if output.transaction == "commit":
        sys_flag |= SYS_TRANSACTION_COMMIT
        position = gathered.item.position
    return queue, target.mode, body, properties, sys_flag, reconsume_times, position


@lru_cache(maxsize=1024)
def remover(names: tuple[str, ...]) -> Callable[[bytes, bytes], bytes]:
    """Return a substitution that removes properties of these names. Requests repeat the same few.

    It expects bytes in which 0x02 encloses each property. The pattern starts with the separator, which `re`
    finds at the speed of memchr, then the names' first letters: twice as fast as the names alone.
    """
    either = b"|".join(re.escape(name.encode()) for name in names)
    letters = b"".join({re.escape(name.encode()[:1]) for name in names}) if all(names) else b"\\x00-\\xff"
    return re.compile(rb"\x02(?=[%b])(?:%b)\x01[^\x02]*(?=\x02)" % (letters, either)).sub


@lru_cache(maxsize=256)
def _formatted(pairs: tuple[tuple[str, str], ...]) -> bytes:
    return format_properties(dict(pairs))


def _properties(output: SettleOutput, gathered: Gathered) -> bytes:
    put = output.set
    try:
        if output.properties == "none":
            properties = _formatted(tuple(put.items()))
        else:
            assert gathered.record is not None
            properties = gathered.record.properties
            if properties and properties[-1] != _END_BYTE:
                properties += _END
            drop = (*output.drop, GANTRY_SETTLED) if MARK in properties else output.drop
            if put:
                drop = (*drop, *put)
            if drop:
                properties = remover(drop)(b"", _END + properties)[1:]
            if put:
                properties += format_properties(put)
    except MalformedProperties as error:
        raise CannotPlan(SettleStatus.BAD_ITEM, str(error)) from error
    if put and ZERO_SECTOR in properties:
        raise CannotPlan(SettleStatus.BAD_ITEM, ZEROS_REMARK)
    if len(properties) > PROPERTIES_BYTES_MAX:
        raise CannotPlan(
            SettleStatus.BAD_ITEM,
            f"the properties of an output have {len(properties)} bytes, the limit is {PROPERTIES_BYTES_MAX}",
        )
    return properties


def unit_code(topic: str, properties: bytes, levels: LevelList, store_ms: int) -> int:
    """Return the code of a record's unit: its tag's code, or its due time when it is a delayed message again."""
    if topic == SCHEDULE_TOPIC:
        return levels.deliver_ms(properties, store_ms)
    tag = find_property(properties, b"TAGS") if b"TAGS\x01" in properties else None
    return tags_code(tag) if tag else 0


def unique_key_of(properties: bytes) -> str | None:
    """Return the unique key of stored properties that end with a separator. Most clients put it first."""
    if properties.startswith(_UNIQUE_KEY) and _OTHER_UNIQUE_KEY not in properties:
        return properties[_UNIQUE_KEY_AT : properties.find(b"\x02", _UNIQUE_KEY_AT)].decode(errors="replace")
    return text_of(properties, UNIQ_KEY.encode())


def text_of(properties: bytes, name: bytes) -> str | None:
    """Return a stored property as text."""
    value = find_property(properties, name)
    return None if value is None else value.decode(errors="replace")
