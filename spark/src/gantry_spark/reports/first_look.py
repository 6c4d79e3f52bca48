"""The first tables of a report: the content of the queues before the log is read, and the counts of the log, topic by topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyarrow import compute

from gantry_spark.reports.counting.kinds import SYSTEM, kind_of
from gantry_spark.reports.facts import Bounds

_pc: Final[Any] = compute
_ROWS: Final = 12


def by_queues(bounds: Iterable[Bounds]) -> str:
    """Return a table in plain text, the largest topics first; the report says at its end whether the log agrees."""
    queues: dict[str, list[int]] = {}
    for bound in bounds:
        if kind_of(bound.topic) != SYSTEM:
            queues.setdefault(bound.topic, []).append(max(bound.max_offset - bound.min_offset, 0))
    return _table("by the queues, before the log is read", queues)


def by_log(counted: pa.Table) -> str:
    """Return the same from the counts of the log (`counts.SCHEMA`), also without system topics."""
    traffic: Any = counted.filter(_pc.equal(counted["part"], "traffic"))
    queues: dict[str, list[int]] = {}
    for row in traffic.group_by(["topic", "broker", "queueId"]).aggregate([("messages", "sum")]).to_pylist():
        if kind_of(row["topic"]) != SYSTEM:
            queues.setdefault(row["topic"], []).append(row["messages_sum"])
    return _table("counted in the log", queues)


def _table(words: str, queues: Mapping[str, Sequence[int]]) -> str:
    rows = sorted(((sum(held), len(held), topic) for topic, held in queues.items()), reverse=True)
    total = sum(row[0] for row in rows)
    lines = [f"{words}: {total:,} messages in {len(rows):,} topics"]
    lines += [f"{'messages':>15} {'queues':>7}  topic"] if rows else []
    lines += [f"{messages:>15,} {count:>7,}  {topic}" for messages, count, topic in rows[:_ROWS]]
    if len(rows) > _ROWS:
        lines.append(f"{sum(row[0] for row in rows[_ROWS:]):>15,} {'':>7}  in {len(rows) - _ROWS:,} more")
    return "\n".join(lines)
