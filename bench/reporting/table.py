"""The tables of a run: each measurement with its floor and its goal, then a comparison of the systems. Measures nothing.

Used by run.py; a run has the format of its `bench.json`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from measuring.refusing import refuse
from reporting.goals import FLOORS, GOALS, Figure, amount, verdict

OURS = "Gantry"
BEGIN, END = "<!-- results of a run -->", "<!-- end of the results -->"
LOWER_IS_BETTER = {"ms", "s", "MB"}


def judged(paths: list[Path]) -> dict[str, Any]:
    """Read a run, or several as one: for a program in several runs, the last one counts. Ends the program on an invalid file."""
    runs = [_read(path) for path in paths]
    programs = {program["program"]: program for run in runs for program in run["programs"]}
    asked = [
        {"machine": run["machine"], "began": run["began"], "programs": names}
        for run in runs
        if (names := [one["program"] for one in run["programs"] if programs[one["program"]] is one])
    ]
    return {"asked": asked, "programs": list(programs.values()), "quick": any(run["quick"] for run in runs)}


def _read(path: Path) -> dict[str, Any]:
    try:
        run = json.loads(path.read_text(encoding="utf-8"))
        return {name: run[name] for name in ("machine", "began", "programs", "quick")}
    except (OSError, ValueError, LookupError, TypeError) as error:
        why = f"{type(error).__name__}: {error}"
        refuse(f"{path} is not a bench.json of ./gantry bench --out DIR ({why})")


def figures(run: dict[str, Any]) -> list[Figure]:
    """Return all measurements of a run, with the floors that other programs measured."""
    found = [Figure(**one) for program in run["programs"] for one in program.get("figures", [])]
    values = {one.key: one for one in found}
    return [_with_floor(one, values) for one in found]


def _with_floor(found: Figure, values: dict[str, Figure]) -> Figure:
    floor = values.get(FLOORS.get(found.key, ""))
    if floor is None or found.floor is not None:
        return found
    return found._replace(floor=floor.value, beside=floor.key)


def markdown(run: dict[str, Any]) -> str:
    """Return the whole run as Markdown."""
    found = figures(run)
    against = [one for one in found if one.key.startswith("against.")]
    rest = [one for one in found if not one.key.startswith("against.")]
    programs = run["programs"]
    loads = [program["loadBefore"][0] for program in programs if "loadBefore" in program]
    parts = [_asked(run), f"Load before each program: {_range(loads)}."]
    parts += [_quick()] if run.get("quick") else []
    parts += [_goals_table(rest), _missing(rest, programs)] if rest else []
    parts += [_against_table(against)] if against else []
    parts += [_skipped(programs)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _asked(run: dict[str, Any]) -> str:
    """Return the time and the programs: a line, or one for each of several runs."""
    runs = run.get("asked") or [run]
    if len(runs) == 1:
        return f"{runs[0]['machine']}; {runs[0]['began']}."
    return "\n".join(f"- {one['machine']}; {one['began']}: {', '.join(one['programs'])}" for one in runs)


def _quick() -> str:
    return "A quick run: short measurements of small amounts, which show that all of it runs, and no speeds."


def _range(loads: list[float]) -> str:
    return f"{min(loads):.1f} to {max(loads):.1f}" if loads else "unknown"


def _goals_table(found: list[Figure]) -> str:
    lines = ["| question | measured | floor | ratio | goal | met? |", "|---|---|---|---|---|---|"]
    for one in found:
        goal = GOALS.get(one.key)
        floor = f"{amount(one.floor, one.unit)} ({one.beside})" if one.floor is not None else ""
        ratio = f"{one.ratio:.2f}" if one.ratio is not None else ""
        cells = [
            goal.question if goal else one.key.replace(".", ": ", 1),
            amount(one.value, one.unit),
            floor.replace(" ()", ""),
            ratio,
            goal.words(one.unit) if goal else "",
            verdict(one),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _missing(found: list[Figure], programs: list[dict[str, Any]]) -> str:
    """Return the goals of programs that ran, without a measurement."""
    ran = {program["program"] for program in programs}
    keys = {one.key for one in found}
    lines = [
        f"- {goal.question} (`{key}`)"
        for key, goal in GOALS.items()
        if key not in keys and key.split(".")[0] in ran
    ]
    return "\n".join(["Goals without a figure in this run:", "", *lines]) if lines else ""


def _against_table(found: list[Figure]) -> str:
    """Return the table with questions and durability as rows, systems as columns, and last Gantry's result relative to the best other."""
    cells: dict[tuple[str, str], dict[str, Figure]] = {}
    for one in found:
        _, flush, rest = one.key.split(".", 2)
        question, _, system = rest.rpartition(".")
        cells.setdefault((question, flush), {})[system] = one
    systems = list(dict.fromkeys(system for row in cells.values() for system in row))
    head = ["question", "durability", *systems, "Gantry : best of the others"]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for (question, flush), row in cells.items():
        values = [amount(row[system].value, row[system].unit) if system in row else "" for system in systems]
        lines.append(f"| {question} | {flush} | {' | '.join(values)} | {_beside(row)} |")
    return "\n".join(lines)


def _beside(row: dict[str, Figure]) -> str:
    """Return Gantry's result relative to the best other."""
    others = [one.value for system, one in row.items() if not system.startswith(OURS)]
    if OURS not in row or not others:
        return ""
    ours = row[OURS]
    if ours.unit in LOWER_IS_BETTER:
        return f"{min(others) / ours.value:.2f} x as good"
    return f"{ours.value / max(others):.2f} x as good"


def _skipped(programs: Iterable[dict[str, Any]]) -> str:
    lines = [f"- {one['what']}: {one['why']}" for program in programs for one in program.get("skipped", [])]
    lines += [
        f"- {program['program']}: ended with {program['status']}"
        for program in programs
        if program["status"] and not program.get("skipped")
    ]
    return "\n".join(["Not measured:", "", *lines]) if lines else ""


def put_into(document: Path, text: str) -> None:
    """Replace the text between the marks of a document. Ends the program if there are none."""
    before, begin, rest = document.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        refuse(f"{document} has no marks: {BEGIN} and {END}")
    document.write_text(f"{before}{begin}\n{text}{end}{after}", encoding="utf-8")
