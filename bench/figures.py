"""The one way a benchmark reports: a figure is printed as a line, and collected when a whole run asks for it. Judges nothing itself."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from goals import Figure, told

COLLECTED = "GANTRY_BENCH_FIGURES"
"""Environment variable: the file a whole run collects in, a JSON object a line."""


def figure(
    key: str, value: float, unit: str, *, floor: float | None = None, beside: str = "", words: str = ""
) -> Figure:
    """Report what was measured. `key` names it in goals.py and in JSON, as program.part; `floor`: what was measured beside it in
    the same run and in the same unit, `beside` what that was; `words`: what else belongs to it, such as CPU time.
    """
    found = Figure(key, value, unit, floor, beside, words)
    print(told(found), flush=True)
    collect({"figure": found._asdict()})
    return found


def skipped(what: str, why: str) -> None:
    """Report that something could not be measured here."""
    print(f"skipped: {what}: {why}", flush=True)
    collect({"skipped": {"what": what, "why": why}})


def collect(entry: dict[str, Any]) -> None:
    """Keep an entry for the whole run; nothing where there is none."""
    path = os.environ.get(COLLECTED)
    if path:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
