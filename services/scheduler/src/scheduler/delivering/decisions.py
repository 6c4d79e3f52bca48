"""Decides what to ask of the store for a message, and what follows from its answer. Pure.

A decision is one settle item: `outputs` are the resulting messages, `outcome` is the reason in one word.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import lru_cache
from math import ceil
from typing import NamedTuple

from gantry_wire.messages.properties import (
    DELAY,
    GANTRY_DELAY_MS,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TIMER_DEL_UNIQKEY,
    TIMER_DELAY_LEVEL,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
)
from gantry_wire.names import HALF_TOPIC, TIMER_TOPIC
from gantry_wire.private_requests.settling import SettleItem, SettleOutput, SettleStatus
from scheduler.index.entries import OFFSET_MASK, PARKED, TIMER, Entry, queue_of
from scheduler.system_names import PARKED_FROM, PARKED_REASON, PARKED_TOPIC

DELIVERED, CANCELLED, MOVED, ROLLED, PARKED_OUTCOME, DISCARDED = (
    "delivered",
    "cancelled",
    "moved",
    "rolled",
    "parked",
    "discarded",
)
LEVEL_DROP = (GANTRY_DELAY_MS,)
"""Level messages keep DELAY, REAL_TOPIC and REAL_QID when delivered, as in RocketMQ."""
TIMER_DROP = (
    REAL_TOPIC,
    REAL_QUEUE_ID,
    TIMER_OUT_MS,
    TIMER_DELAY_SEC,
    TIMER_DELAY_MS,
    TIMER_DELAY_LEVEL,
    TIMER_DEL_UNIQKEY,
)
"""Timed messages keep TIMER_DELIVER_MS, as in RocketMQ: gRPC consumers read there when a message was to be delivered."""
PARKED_DROP = (*TIMER_DROP, GANTRY_DELAY_MS, PARKED_REASON, PARKED_FROM)
_DROP = {TIMER: TIMER_DROP, PARKED: PARKED_DROP}
REASON_CHARS_MAX = 200

RETRY_MS_MIN, RETRY_MS_MAX = 1000, 300_000
OVERDUE_PER_RETRY = 4
"""A message late by t waits t / 4 before its next attempt, so the back-off keeps no attempt count."""


class Then(Enum):
    """What follows from the store's answer for one message."""

    DONE = 0
    LATER = 1
    PARK = 2
    GONE = 3
    """The record is gone and cannot be delivered. It is counted and logged."""


class Verdict(NamedTuple):
    """The next step, its delay in ms, and the reason."""

    then: Then
    wait_ms: int = 0
    error: str = ""


def deliver(entry: Entry, *, force: bool = False, at_ms: int = 0) -> SettleItem:
    """Return the delivery of a message to its real topic, at `at_ms` or as soon as possible.

    Cancel records and messages for the half topic produce nothing.
    """
    if entry.cancels or entry.topic == HALF_TOPIC:
        return SettleItem(entry.offset, entry.position, [], DISCARDED, force=True, at_ms=at_ms)
    source = entry.source
    output = _delivery(entry.topic, entry.queue_id, _DROP.get(source, LEVEL_DROP))
    return SettleItem(
        entry.offset, entry.position, [output], DELIVERED, force=force or source == PARKED, at_ms=at_ms
    )


def deliver_all(
    source: int, entries: Sequence[Entry], now_ms: float, behind_ms: float = 0.0
) -> list[SettleItem]:
    """Return the deliveries of messages from one source, as `deliver` does, in two thirds of the CPU per message.

    Messages not due at `now_ms` carry the store time at which they will be: they leave that much ahead.
    """
    drop, force = _DROP.get(source, LEVEL_DROP), source == PARKED
    items: list[SettleItem] = []
    for entry in entries:
        due_ms, topic = entry.due_ms, entry.topic
        at_ms = ceil(due_ms + behind_ms) if due_ms > now_ms else 0
        if entry.cancels or topic == HALF_TOPIC:
            items.append(deliver(entry, at_ms=at_ms))
        else:
            outputs = [_delivery(topic, entry.queue_id, drop)]
            offset = entry.key & OFFSET_MASK
            items.append(SettleItem(offset, entry.position, outputs, DELIVERED, force, at_ms))
    return items


@lru_cache(maxsize=4096)
def _delivery(topic: str, queue_id: int, drop: tuple[str, ...]) -> SettleOutput:
    """Return the delivery to a queue. It is immutable, so all messages of a burst share one."""
    return SettleOutput(topic, queue_id, drop=drop)


def cancel(entry: Entry) -> SettleItem:
    """Return the decision to never deliver a message."""
    return SettleItem(entry.offset, entry.position, [], CANCELLED, force=True)


def move(entry: Entry, due_ms: int, outcome: str = MOVED) -> SettleItem:
    """Return the decision to keep a message in the timer queue until another time, or until the same time after a roll."""
    if entry.source == PARKED:
        output = SettleOutput(PARKED_TOPIC, 0)
    else:
        drop = (GANTRY_DELAY_MS, TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS)
        if outcome == MOVED:
            drop = (
                *drop,
                DELAY,
            )  # a moved message gets a new time; a rolled one keeps its sender's
        output = SettleOutput(TIMER_TOPIC, 0, set={TIMER_OUT_MS: str(due_ms)}, drop=drop)
    return SettleItem(entry.offset, entry.position, [output], outcome, force=True)


def park(entry: Entry, why: str) -> SettleItem:
    """Return the decision to park a message, with the reason."""
    topic, queue_id = queue_of(entry.source)
    notes = {PARKED_REASON: _plain(why), PARKED_FROM: f"{topic}:{queue_id}:{entry.offset}"}
    return SettleItem(
        entry.offset, entry.position, [SettleOutput(PARKED_TOPIC, 0, set=notes)], PARKED_OUTCOME, force=True
    )


def judge(status: str, detail: str, late_ms: float, park_after_ms: int) -> Verdict:
    """Return what follows from the store's answer for a message late by `late_ms`."""
    if status in (SettleStatus.SETTLED, SettleStatus.ALREADY):
        return Verdict(Then.DONE)
    if status == SettleStatus.EARLY:
        return Verdict(Then.LATER, max(1, int(-late_ms)))
    error = f"{status}: {detail}" if detail else status
    if status == SettleStatus.REMOVED:
        return Verdict(Then.GONE, error=error)
    if status != SettleStatus.NO_SPACE and late_ms >= park_after_ms:
        return Verdict(Then.PARK, error=error)
    return Verdict(Then.LATER, retry_ms(late_ms), error)


def retry_ms(late_ms: float) -> int:
    """Return the wait before the next attempt of a message that is this late."""
    return int(min(max(late_ms / OVERDUE_PER_RETRY, RETRY_MS_MIN), RETRY_MS_MAX))


def _plain(text: str) -> str:
    return "".join(c for c in text[:REASON_CHARS_MAX] if c.isprintable()) or "unknown"
