"""The reports of benchmarks: prints each measurement as a line, and collects it for a whole run. Does not judge."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from reporting.goals import Figure, line_of

COLLECTED = "GANTRY_BENCH_FIGURES"
"""Environment variable: the file in which a whole run collects, one JSON object per line."""


def figure(
    key: str, value: float, unit: str, *, floor: float | None = None, beside: str = "", words: str = ""
) -> Figure:
    """Report a measurement. `key` names it in goals.py and in JSON, as program.part; `floor` is the reference measured in
    the same run and in the same unit, `beside` describes it; `words` adds details such as CPU time.
    """
    found = Figure(key, value, unit, floor, beside, words)
    print(line_of(found), flush=True)
    collect({"figure": found._asdict()})
    return found


def skipped(what: str, why: str) -> None:
    """Report that something could not be measured here."""
    print(f"skipped: {what}: {why}", flush=True)
    collect({"skipped": {"what": what, "why": why}})


def collect(entry: dict[str, Any]) -> None:
    """Add an entry to the whole run, if there is one."""
    path = os.environ.get(COLLECTED)
    if path:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
