"""Renders an endurance run as one self-contained page: counts, judgements, and every line over time. Pure."""

from __future__ import annotations

from dataclasses import replace
from html import escape
from statistics import median
from typing import Any

from gantry_loadtest.endurance.judging import MIB, Judgement, Point, buckets
from gantry_loadtest.endurance.samples import Seen, within_lives
from gantry_loadtest.pages.charts import Lines
from gantry_loadtest.pages.style import PICTURE_STYLE, STYLE

LINES_PER_CHART = 4
PICTURE_POINTS_MAX = 270
Named = dict[str, list[Point]]


def charts(seen: Seen) -> dict[str, Lines]:
    """Return every chart by a short name, with kills as vertical lines."""
    found: dict[str, Lines] = {}

    def draw(name: str, title: str, named: Named, unit: str, *, dots: bool = False) -> None:
        found[name] = Lines(title, dict(named), unit, seen.marks, seen.length, dots)

    for figure, title, unit, by in (
        ("pss", "Memory (PSS)", "MiB", MIB), ("handles", "File handles", "", 1), ("threads", "Threads", "", 1),
    ):  # fmt: skip
        names = sorted(seen.names, key=lambda name, figure=figure: -_level(seen.of_process(name, figure)))
        for part in range(0, len(names), LINES_PER_CHART):
            named = {
                name: seen.scaled(seen.of_process(name, figure), by)
                for name in names[part : part + LINES_PER_CHART]
            }
            draw(f"{figure}-{part // LINES_PER_CHART + 1}", title, named, unit)
    disk = {
        "all files": seen.scaled(seen.of_all("diskBytes"), MIB),
        "segments of the log": seen.scaled(seen.of_all("logBytes"), MIB),
        "taken by retention so far": seen.scaled(seen.of_all("firstSegment"), MIB),
    }
    draw("disk", "Disk", disk, "MiB")
    draw("lateness", "Lateness of delayed messages, by minute", _minutes(seen, ("p50", "p99")), "ms")
    draw("load", "Load average of the machine, and CPU of the system", _load(seen), "")
    recovery: Named = {}
    for kill in seen.kills:
        recovery.setdefault(kill["name"], []).append((kill["at"], kill["seconds"]))
    draw("recovery", "Ready again after a kill or restart", recovery, "s", dots=True)
    rates = {
        "attempted": seen.rate("attempted"),
        "acknowledged": seen.rate("acknowledged"),
        "read": seen.rate("read"),
    }
    draw("rates", "Messages a second", rates, "/s")
    held: Named = {"pulls": seen.of_all("pullsHeld"), "receives": seen.of_all("receivesHeld")}
    draw("held", "Held by the gateway", held, "")
    draw("pending", "Delayed messages pending", {"pending": seen.of_all("pending")}, "")
    return found


def _level(points: list[Point]) -> float:
    return median(y for _, y in points) if points else 0.0


def _minutes(seen: Seen, shares: tuple[str, ...]) -> Named:
    return {
        share: [(minute["at"], minute[share]) for minute in seen.minutes if minute["count"]]
        for share in shares
    }


def _load(seen: Seen) -> Named:
    busy = [
        (sample["at"], sample["cpuShare"]) for sample in seen.samples if sample.get("cpuShare") is not None
    ]
    return {"load average": seen.of_all("load"), "cores used by the system": busy}


def render(seen: Seen, count_line: str, verdict: str, shortfalls: list[str], judged: list[Judgement]) -> str:
    """Return the page."""
    about = seen.about
    title = f"Endurance: {seen.length / 60:.0f} minutes"
    parts = [
        f"<h1>{escape(title)} <span class='verdict {verdict}'>{verdict}</span></h1>",
        f"<p class='soft'>{escape(str(about.get('words', '')))}</p>",
        f"<p><code>{escape(count_line)}</code></p>",
        _items(shortfalls),
        "<h2>Over time</h2><p class='soft'>Vertical lines are kills (-9) and restarts.</p>",
        *(chart.figure() for chart in charts(seen).values()),
        "<h2>What is flat</h2>",
        _judgements(judged),
        "<h2>Memory within lives</h2><p class='soft'>Slopes within the life of one process, which kills do not hide.</p>",
        _lives(seen),
        "<h2>Kills and restarts</h2>",
        _kills(seen),
        *(["<h2>Faults</h2>", _items([fault["words"] for fault in seen.faults])] if seen.faults else []),
    ]
    head = f"<meta charset='utf-8'><meta name='viewport' content='width=device-width'><title>{escape(title)}</title>"
    return f"<!doctype html><html lang='en'><head>{head}<style>{STYLE}</style></head><body>{''.join(parts)}</body></html>\n"


def _items(words: list[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(one)}</li>' for one in words)}</ul>" if words else ""


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]], numbers_from: int) -> str:
    def row(cells: tuple[str, ...], tag: str) -> str:
        inside = "".join(
            f"<{tag}{' class=n' if place >= numbers_from else ''}>{escape(cell)}</{tag}>"
            for place, cell in enumerate(cells)
        )
        return f"<tr>{inside}</tr>"

    return f"<table>{row(head, 'th')}{''.join(row(cells, 'td') for cells in rows)}</table>"


def _judgements(judged: list[Judgement]) -> str:
    rows = [
        (
            one.line, ("flat" if one.is_flat else "not flat") + ("" if one.is_judged else " (not judged)"),
            f"{one.level:,.1f}", f"{one.change:+,.1f}", f"{one.limit:,.1f} {one.unit}",
        )
        for one in judged
    ]  # fmt: skip
    rules = _items(list(dict.fromkeys(f"{one.unit}: {one.rule}" for one in judged)))
    return _table(("line", "", "level", "change", "may"), rows, 2) + f"<div class='soft'>{rules}</div>"


def _lives(seen: Seen) -> str:
    found = {name: within_lives(seen, name, "pss") for name in seen.names}
    rows = [(name, f"{value / MIB:+.1f}") for name, value in found.items() if value is not None]
    return _table(("process", "MiB an hour"), rows, 1)


def _kills(seen: Seen) -> str:
    by_name: dict[tuple[str, str], list[float]] = {}
    for kill in seen.kills:
        by_name.setdefault((kill["name"], kill["how"]), []).append(kill["seconds"])
    rows = [
        (name, how, f"{len(took)}", f"{median(took):.2f}", f"{max(took):.2f}")
        for (name, how), took in sorted(by_name.items())
    ]
    return _table(("process", "how", "times", "median s", "most s"), rows, 2)


def pictures(seen: Seen) -> dict[str, str]:
    """Return every chart as a separate picture with fewer points."""
    return {
        name: replace(
            chart, named={key: buckets(points, PICTURE_POINTS_MAX) for key, points in chart.named.items()}
        ).picture(PICTURE_STYLE)
        for name, chart in charts(seen).items()
        if chart.drawn
    }


def outcome(
    seen: Seen, count: dict[str, Any], shortfalls: list[str], judged: list[Judgement]
) -> dict[str, Any]:
    """Return everything for JSON."""
    return {
        "verdict": "fail" if shortfalls else "pass", "shortfalls": shortfalls, "count": count,
        "about": seen.about, "judgements": [one.to_dict() for one in judged],
        "memorySlopeWithinLivesBytesPerHour": {name: within_lives(seen, name, "pss") for name in seen.names},
        "kills": seen.kills, "minutes": seen.minutes, "faults": seen.faults, "samples": seen.samples,
    }  # fmt: skip
