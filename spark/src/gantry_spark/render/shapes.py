"""Converts rows of a report into series for charts: a value for each time step. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from gantry_spark.render.charts import Series
from gantry_spark.render.formats import as_time
from gantry_spark.render.tables import Row

SERIES_MAX: Final = 8
_STEPS_MAX: Final = 5000
"""A report has some hundred; a row with a wrong time must not create millions."""


def axis(rows: Sequence[Row], step: int) -> list[datetime]:
    """Return every step from the first to the last time of rows, `step` seconds apart."""
    seconds = [at.timestamp() for row in rows if (at := as_time(row["time"])) is not None]
    if not seconds:
        return []
    first, last = int(min(seconds)), int(max(seconds))
    return [
        datetime.fromtimestamp(first + step * n, UTC)
        for n in range(min((last - first) // step + 1, _STEPS_MAX))
    ]


def by_time(
    rows: Sequence[Row],
    times: Sequence[datetime],
    value: str,
    name: Callable[[Row], str],
    *,
    empty: float | None,
) -> list[Series]:
    """Return a series for each name, in the order in which names come; `empty` for a step without a row."""
    places = {at: n for n, at in enumerate(times)}
    found: dict[str, list[Any]] = {}
    for row in rows:
        at = as_time(row["time"])
        if at is not None and at in places:
            values = found.setdefault(name(row), [empty] * len(times))
            values[places[at]] = row[value]
    return [Series(key, values) for key, values in found.items()]


def columns_by_time(
    rows: Sequence[Row], times: Sequence[datetime], columns: Sequence[tuple[str, str]]
) -> list[Series]:
    """Return a series for each (column, name) of rows that have all of them."""
    return [one for key, name in columns for one in by_time(rows, times, key, _always(name), empty=None)]


def held(values: Sequence[float | None]) -> list[float | None]:
    """Return values where a step without one keeps the previous one."""
    last: float | None = None
    kept: list[float | None] = []
    for value in values:
        last = last if value is None else value
        kept.append(last)
    return kept


def by_label(rows: Sequence[Row], labels: Sequence[Any], label: str, value: str, name: str) -> list[Series]:
    """Return a series for each `name`, with a value for each label."""
    found: dict[str, list[Any]] = {}
    for row in rows:
        values = found.setdefault(str(row[name]), [None] * len(labels))
        if row[label] in labels:
            values[labels.index(row[label])] = row[value]
    return [Series(key, values) for key, values in found.items()]


def stacked_tops(series: Sequence[Series]) -> list[float]:
    """Return the height of the stacked series, step by step."""
    return [
        sum(value or 0 for value in values) for values in zip(*(one.values for one in series), strict=True)
    ]


def _always(name: str) -> Callable[[Row], str]:
    return lambda _: name
