"""The index page of a folder of reports: the reports, newest first, with their totals. Reads `report.json` of each."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any, Final

from gantry_spark.render.listing import Entry, render
from gantry_spark.reports.writing import HTML, JSON

INDEX: Final = "index.html"
_MARK: Final = "<title>Gantry reports</title>"
"""Identifies a generated index page: any other page is left alone."""
_REPORTS_MAX: Final = 1000


def write_index(folder: Path, *, is_ours: bool) -> Path | None:
    """Write the index page of a folder that is ours, has a generated one, or has several reports; return None otherwise."""
    page = folder / INDEX
    with contextlib.suppress(OSError, ValueError):
        if page.exists() and _MARK not in page.read_text(encoding="utf-8"):
            return None
        entries = [entry for place in sorted(folder.iterdir()) if (entry := _entry(place)) is not None]
        if not (is_ours or page.exists() or len(entries) > 1):
            return None
        entries.sort(key=lambda entry: entry.made, reverse=True)
        fresh = folder / f".{INDEX}.{os.getpid()}"
        fresh.write_text(render(entries[:_REPORTS_MAX]), encoding="utf-8")
        fresh.replace(page)
        return page
    return None


def _entry(place: Path) -> Entry | None:
    """Return the index entry of a report; None for a folder without one."""
    if place.name.startswith(".") or not (place / HTML).is_file():
        return None
    try:
        report: dict[str, Any] = json.loads((place / JSON).read_text(encoding="utf-8"))
        totals = report["totals"]
        return Entry(
            place.name, report["generatedAt"], totals["firstStored"], totals["lastStored"], totals["messages"], totals["bytes"],
            report["check"]["state"], ", ".join(report["snapshot"]["brokers"]),
        )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError):
        return None
