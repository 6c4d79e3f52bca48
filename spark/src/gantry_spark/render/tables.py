"""Sortable tables: each cell contains its sort value. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from gantry_spark.render import formats
from gantry_spark.render.formats import safe

ROWS_MAX: Final = 200
"""Further rows are only in the Parquet file; the page says so."""

_WORDS: Final[dict[str, Callable[[Any], str]]] = {
    "text": formats.plain, "count": formats.count, "bytes": formats.size, "ms": formats.millis,
    "share": formats.share, "time": formats.moment,
}  # fmt: skip
_NUMBERS: Final = frozenset({"count", "bytes", "ms", "share"})

Row = Mapping[str, Any]
Judge = Callable[[Row], str]
"""Returns "bad", "warn" or ""."""


class Column(NamedTuple):
    """A column of a table: the key of its values, its heading, and their format."""

    key: str
    heading: str
    kind: str = "text"


def fine(_: Row) -> str:
    """Judge rows of a table without thresholds."""
    return ""


def table(
    name: str, caption: str, columns: Sequence[Column], rows: Sequence[Row], judge: Judge = fine
) -> str:
    """Return a table, or a line that says it is empty."""
    if not rows:
        return f'<p class="nothing">{safe(caption)}: nothing in this range.</p>'
    head = "".join(
        f'<th scope="col"{_number_class(column)}><button type="button">{safe(column.heading)}</button></th>'
        for column in columns
    )
    body = "".join(_row(columns, row, judge(row)) for row in rows[:ROWS_MAX])
    more = (
        f'<p class="more">The first {ROWS_MAX} of {len(rows):,}; all are in tables/{safe(name)}.parquet.</p>'
    )
    return (
        f'<div class="table"><table id="t-{safe(name)}"><caption>{safe(caption)}</caption><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>" + (more if len(rows) > ROWS_MAX else "")
    )


def _row(columns: Sequence[Column], row: Row, verdict: str) -> str:
    cells = "".join(_cell(column, row.get(column.key), is_first=column is columns[0]) for column in columns)
    return f'<tr class="{verdict}">{cells}</tr>' if verdict else f"<tr>{cells}</tr>"


def _cell(column: Column, value: Any, *, is_first: bool) -> str:
    if column.kind == "time":
        value = formats.as_time(value)
    words = safe(_WORDS[column.kind](value))
    tag = 'th scope="row"' if is_first else "td"
    bar = f' style="--bar:{100 * value:.1f}%"' if column.kind == "share" and value is not None else ""
    return f'<{tag}{_number_class(column)} data-v="{safe(formats.raw(value))}"{bar}>{words}</{tag[:2]}>'


def _number_class(column: Column) -> str:
    return f' class="n {column.kind}"' if column.kind in _NUMBERS else ""
