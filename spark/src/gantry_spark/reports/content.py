"""The content of `report.json`, from the tables and the facts: totals, the check against the queues, every table as rows. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import isfinite
from typing import Any, Final

import pyarrow as pa

from gantry_spark.reports.facts import Damage, Facts, Span

JSON_ROWS_MAX: Final = 10_000
"""Rows of a table in report.json; `topics` is always complete, and Parquet has all rows of every table."""
ROLLUP_PREFIX: Final = "hourly_"
"""Tables for `--merge`, with sketches: in Parquet only."""
DAMAGE_SCHEMA: Final = pa.schema(
    [("broker", pa.string()), ("position", pa.int64()), ("size", pa.int64()), ("why", pa.string())]
)
Rows = Sequence[Mapping[str, Any]]


def damage_table(damage: Sequence[Damage]) -> pa.Table:
    """Return the quarantine as a table."""
    return pa.Table.from_pylist([piece._asdict() for piece in damage], schema=DAMAGE_SCHEMA)


def content(
    facts: Facts, span: Span, tables: Mapping[str, pa.Table], parameters: Mapping[str, int], seconds: float
) -> dict[str, Any]:
    """Return the report as JSON-ready values; times are ISO texts in UTC."""
    rows = {name: _rows(name, table) for name, table in tables.items() if not name.startswith(ROLLUP_PREFIX)}
    notes = [*facts.notes]
    if not tables["topics"].num_rows and not tables["system_topics"].num_rows:
        nothing = "There are no messages in this range." if not span.is_all else "The log has no messages."
        notes.insert(0, "No message of the log could be read." if rows["damage"] else nothing)
    if rows["damage"]:
        notes.append(f"{_unread(rows['damage'])} could not be read and are in no count: see Damage.")
    notes += [
        f"The table {name} has {table.num_rows} rows; report.json and this page have {len(rows[name])} of them, tables/{name}.parquet all."
        for name, table in tables.items()
        if name in rows and table.num_rows > len(rows[name])
    ]
    return {
        "title": "Gantry report",
        "generatedAt": _iso(datetime.now(UTC)),
        "seconds": round(seconds, 1),
        "range": {"from": _iso_ms(span.since_ms), "to": _iso_ms(span.below_ms)},
        "snapshot": facts.snapshot,
        "totals": totals(rows),
        "check": check(span, rows.get("check"), rows["damage"]),
        "notes": notes,
        "parameters": dict(parameters),
        "tables": rows,
    }


def totals(rows: Mapping[str, Rows]) -> dict[str, Any]:
    """Return the totals. `messages` and `bytes` are those of user topics, including retries and dead letters."""
    topics, system = rows["topics"], rows["system_topics"]
    first, last = _edges(topics or system)
    seconds = max((last - first).total_seconds(), 1.0) if first and last else 1.0
    latency = next((row for row in rows.get("latency", ()) if row["topic"] == "all topics"), {})
    delays = next((row for row in rows.get("delays", ()) if row["kind"] == "all"), {})
    lag, transactions = rows.get("lag", ()), rows.get("transactions", ())
    retries = rows.get("retries", ())
    messages, size = _sum(topics, "messages"), _sum(topics, "bytes")
    return {
        "messages": messages, "bytes": size, "bodyBytes": _sum(topics, "bodyBytes"), "topics": len(topics),
        "systemMessages": _sum(system, "messages"), "systemBytes": _sum(system, "bytes"),
        "firstStored": _iso(first), "lastStored": _iso(last),
        "messagesPerSecond": round(messages / seconds, 1), "bytesPerSecond": round(size / seconds, 1),
        "latencyP99Ms": latency.get("p99Ms"), "clockAhead": latency.get("clockAhead", 0),
        "groups": len({row["group"] for row in lag}), "lag": _sum(lag, "lag"),
        "delayed": delays.get("delivered", 0), "delayP99Ms": delays.get("p99Ms"),
        "overdue": delays.get("overdue", 0), "early": delays.get("early", 0),
        "transactions": _sum(transactions, "begun"), "openTransactions": _sum(transactions, "open"),
        "retries": _sum(retries, "retries"), "deadLetters": _sum(retries, "deadLetters"),
        "damaged": len(rows["damage"]),
    }  # fmt: skip


def check(span: Span, rows: Rows | None, damage: Rows = ()) -> dict[str, Any]:
    """Return the result of comparing log and queues, as a word and a sentence."""
    unread = f" {_unread(damage)} could not be read: see Damage." if damage else ""
    if rows is None:
        why = (
            "only a part of the log was requested"
            if not span.is_all
            else "there are no queues to compare with"
        )
        return {
            "state": "not checked",
            "difference": None,
            "words": f"Not checked against the queues: {why}.{unread}",
        }
    found, wanted, removed = (_sum(rows, key) for key in ("inLog", "inQueues", "removed"))
    queues = _sum(rows, "queuesThatDiffer")
    gone = f" {removed:,} more in the log are of deleted topics." if removed else ""
    if not queues:
        words = (
            f"Checked against the queues: equal. The log has {found - removed:,} messages, including system topics, and so do the "
            f"queues.{gone}{unread}"
        )
        return {"state": "equal", "difference": 0, "removed": removed, "words": words}
    difference = found - removed - wanted
    words = (
        f"Checked against the queues: differs by {difference:+,} messages in {queues:,} queues "
        f"({found - removed:,} in the log, {wanted:,} in the queues).{gone}{unread} The table of the check names them."
    )
    return {"state": "differs", "difference": difference, "removed": removed, "words": words}


def _unread(damage: Rows) -> str:
    """Describe how much of the log is missing or damaged."""
    return f"{len(damage):,} damaged or missing pieces of the log ({_sum(damage, 'size'):,} bytes)"


def _rows(name: str, table: pa.Table) -> list[dict[str, Any]]:
    picked = table if name == "topics" else table.slice(0, JSON_ROWS_MAX)
    return [{key: _json(value) for key, value in row.items()} for row in picked.to_pylist()]


def _json(value: Any) -> Any:
    if isinstance(value, float) and not isfinite(value):
        return None  # JSON cannot express it
    return _iso(value) if isinstance(value, datetime) else value


def _iso(value: datetime | None) -> str | None:
    return (
        None
        if value is None
        else value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )


def _iso_ms(value: int | None) -> str | None:
    return None if value is None else _iso(datetime.fromtimestamp(value / 1000, UTC))


def _sum(rows: Rows, key: str) -> int:
    return sum(row[key] or 0 for row in rows)


def _edges(rows: Rows) -> tuple[datetime | None, datetime | None]:
    if not rows:
        return None, None
    firsts, lasts = zip(*((row["firstStored"], row["lastStored"]) for row in rows), strict=True)
    return datetime.fromisoformat(min(firsts)), datetime.fromisoformat(max(lasts))
