"""Makes the records that result from an item: properties, flags, topics and queues. Reserves nothing and writes nothing."""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from broker_store.delays.levels import LevelList
from broker_store.message import Mode, fixed_bytes
from broker_store.queues import Queue
from broker_store.settling.gathering import Gathered
from broker_store.settling.mark import (
    MARK,
    MARK_SUFFIX_BYTES_MAX,
    OUTPUTS_MAX,
    Source,
    mark_prefix,
    mark_suffix,
)
from broker_store.targets import Target
from gantry_wire.errors import MalformedProperties
from gantry_wire.limits import PROPERTIES_BYTES_MAX
from gantry_wire.names import SCHEDULE_TOPIC
from gantry_wire.properties import (
    DELAY,
    GANTRY_SETTLED,
    find_property,
    format_properties,
    tags_code,
)
from gantry_wire.record import SYS_TRANSACTION_COMMIT, SYS_TRANSACTION_MASK, build_record
from gantry_wire.settle_headers import SettleOutput, SettleStatus

_DELAY = DELAY.encode()
_IS, _END = b"\x01", b"\x02"


class CannotPlan(Exception):
    """No records can be made of a decision; says which SettleStatus that is."""

    def __init__(self, status: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


class Draft(NamedTuple):
    """A record before it has a place."""

    queue: Queue
    mode: Mode
    body: bytes
    properties: bytes
    """With its mark."""
    sys_flag: int
    reconsume_times: int
    prepared_position: int


class Plan(NamedTuple):
    """All records of one item, to lie back to back in this order."""

    gathered: Gathered
    drafts: list[Draft]
    flag: int
    born_ms: int
    born_host: bytes
    size: int
    """Bytes of all of them."""
    output_from: int
    """1 where a mark record comes first, else 0."""


FindTarget = Callable[[str, int], tuple[Target, Queue]]
"""The target and the queue for (topic, queue id). Raises CannotPlan."""


def plan_item(
    source: Source,
    gathered: Gathered,
    find_target: FindTarget,
    marks: tuple[Target, Queue],
    host: bytes,
    now_ms: int,
) -> Plan:
    """Return the records of a decision about an item. Raises CannotPlan."""
    item, record = gathered.item, gathered.record
    if len(item.outputs) >= OUTPUTS_MAX:
        raise CannotPlan(
            SettleStatus.BAD_ITEM, f"{len(item.outputs)} outputs, the limit is {OUTPUTS_MAX - 1}"
        )
    prefix = mark_prefix(source, item.offset)
    room = PROPERTIES_BYTES_MAX - len(prefix) - MARK_SUFFIX_BYTES_MAX
    places = [find_target(output.topic, output.queue_id) for output in item.outputs]
    kept = [_properties(output, gathered) for output in item.outputs]
    needs_mark = not kept or max(map(len, kept)) > room
    total = len(kept) + needs_mark
    drafts: list[Draft] = []
    if needs_mark:
        target, queue = marks
        properties = prefix + mark_suffix(1, total)
        drafts.append(Draft(queue, target.mode, item.outcome.encode(), properties, 0, 0, 0))
    number = len(drafts)
    for output, (target, queue), properties in zip(item.outputs, places, kept, strict=True):
        number += 1
        if len(properties) <= room:
            properties += prefix + mark_suffix(number, total)  # noqa: PLW2901 - the same, completed
        drafts.append(_draft(output, gathered, target, queue, properties))
    flag, born_ms, born_host = (
        (0, now_ms, host) if record is None else (record.flag, record.born_timestamp, record.born_host)
    )
    size = sum(
        [
            fixed_bytes(born_host, host, len(draft.queue.topic_bytes))
            + len(draft.body)
            + len(draft.queue.topic_bytes)
            + len(draft.properties)
            for draft in drafts
        ]
    )
    return Plan(gathered, drafts, flag, born_ms, born_host, size, int(needs_mark))


def build(plan: Plan, draft: Draft, offset: int, position: int, store_ms: int, store_host: bytes) -> bytes:
    """Return the bytes of one record at its place."""
    queue = draft.queue
    return build_record(
        queue.topic_bytes, queue.queue_id, offset, position, draft.body, draft.properties, plan.flag, draft.sys_flag,
        plan.born_ms, plan.born_host, store_ms, store_host, draft.reconsume_times, draft.prepared_position,
    )  # fmt: skip


def unit_code(draft: Draft, levels: LevelList, store_ms: int) -> int:
    """Return what the unit of a record holds: its tag's code, or when it is due where it is a delayed message again."""
    if draft.queue.topic == SCHEDULE_TOPIC:
        return levels.deliver_ms(find_property(draft.properties, _DELAY), store_ms)
    tag = find_property(draft.properties, b"TAGS")
    return tags_code(tag) if tag else 0


def _draft(
    output: SettleOutput, gathered: Gathered, target: Target, queue: Queue, properties: bytes
) -> Draft:
    record = gathered.record
    is_commit = output.transaction == "commit"
    sys_flag = reconsume_times = 0
    body = output.body_base64 or b""
    if output.body == "item":
        assert record is not None
        body, sys_flag = record.body, record.sys_flag & ~SYS_TRANSACTION_MASK
    if record is not None and output.properties == "item":
        reconsume_times = record.reconsume_times
    if output.reconsume_times is not None:
        reconsume_times = output.reconsume_times
    if is_commit:
        sys_flag |= SYS_TRANSACTION_COMMIT
    position = gathered.item.position if is_commit else 0
    return Draft(queue, target.mode, body, properties, sys_flag, reconsume_times, position)


@lru_cache(maxsize=1024)
def _names(names: tuple[str, ...]) -> frozenset[bytes]:
    """Return names as the bytes of properties hold them; requests repeat the same few."""
    return frozenset(name.encode() for name in names)


def _properties(output: SettleOutput, gathered: Gathered) -> bytes:
    try:
        if output.properties == "none":
            properties = format_properties(output.set)
        else:
            assert gathered.record is not None
            raw = gathered.record.properties
            drop = (*output.drop, GANTRY_SETTLED) if MARK in raw else output.drop
            if not output.set and not drop:
                properties = raw if raw.endswith(b"\x02") or not raw else raw + b"\x02"
            else:
                gone = _names((*drop, *output.set))
                parts = [part for part in raw.split(_END) if part and part.partition(_IS)[0] not in gone]
                kept = _END.join(parts) + _END if parts else b""
                properties = kept + format_properties(output.set) if output.set else kept
    except MalformedProperties as error:
        raise CannotPlan(SettleStatus.BAD_ITEM, str(error)) from error
    if len(properties) > PROPERTIES_BYTES_MAX:
        raise CannotPlan(
            SettleStatus.BAD_ITEM,
            f"the properties of an output have {len(properties)} bytes, the limit is {PROPERTIES_BYTES_MAX}",
        )
    return properties
