"""Where a group starts a queue without an offset. Pure: decides what to query, not how."""

from __future__ import annotations

from dataclasses import dataclass

from gantry_wire.bodies.clients import ConsumeFromWhere
from gantry_wire.names import RETRY_PREFIX


@dataclass(slots=True, frozen=True)
class At:
    """Start at this offset."""

    offset: int


@dataclass(slots=True, frozen=True)
class AtEnd:
    """Start with the next new message."""


@dataclass(slots=True, frozen=True)
class AtTime:
    """Start with the first message stored at this time or later (ms)."""

    timestamp_ms: int


def first_offset(
    start: ConsumeFromWhere, timestamp_ms: int, topic: str, committed: int | None
) -> At | AtEnd | AtTime:
    """Return where a queue starts (RebalancePushImpl.computePullFromWhere). The retries of a group are never skipped."""
    if committed is not None and committed >= 0:
        return At(committed)
    if start is ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET:
        return At(0)
    is_retry = topic.startswith(RETRY_PREFIX)
    if start is ConsumeFromWhere.CONSUME_FROM_TIMESTAMP:
        return AtEnd() if is_retry else AtTime(timestamp_ms)
    return At(0) if is_retry else AtEnd()
