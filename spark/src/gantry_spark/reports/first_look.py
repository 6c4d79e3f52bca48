"""What can be said before the log is read: how much the queues hold, topic by topic. Reads nothing, counts nothing in the log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gantry_spark.reports.facts import Bounds
from gantry_spark.reports.kinds import SYSTEM, kind_of

_ROWS: Final = 12


def by_queues(bounds: Iterable[Bounds]) -> str:
    """Return a table in plain text, the largest topics first; the report says at its end whether the log agrees."""
    queues: dict[str, list[int]] = {}
    for bound in bounds:
        if kind_of(bound.topic) != SYSTEM:
            queues.setdefault(bound.topic, []).append(max(bound.max_offset - bound.min_offset, 0))
    rows = sorted(((sum(held), len(held), topic) for topic, held in queues.items()), reverse=True)
    total = sum(row[0] for row in rows)
    lines = [f"by the queues, before the log is read: {total:,} messages in {len(rows):,} topics"]
    lines += [f"{'messages':>15} {'queues':>7}  topic"] if rows else []
    lines += [f"{messages:>15,} {count:>7,}  {topic}" for messages, count, topic in rows[:_ROWS]]
    if len(rows) > _ROWS:
        lines.append(f"{sum(row[0] for row in rows[_ROWS:]):>15,} {'':>7}  in {len(rows) - _ROWS:,} more")
    return "\n".join(lines)
