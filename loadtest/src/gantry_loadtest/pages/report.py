"""A run as one self-contained page, and as JSON with every number. Rendering is pure; write_report writes."""

import json
import re
from html import escape
from pathlib import Path
from typing import Any

from gantry_loadtest.judging.findings import Findings
from gantry_loadtest.judging.verdict import Outcome
from gantry_loadtest.options import Plan, Refused
from gantry_loadtest.pages.charts import bars, lines
from gantry_loadtest.pages.style import STYLE
from gantry_loadtest.pages.wording import ms

SHARES = (0.5, 0.75, 0.9, 0.95, 0.99, 0.999)
COUNTED = ("intended", "acknowledged", "delivered", "refused")


def make_folder(folder: Path) -> None:
    """Create the report's folder before the load, so that a bad path fails early. Raises Refused."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"--out {folder}: {error.strerror}; name a folder that can be written") from error


def write_report(folder: Path, plan: Plan, outcome: Outcome, answer: list[str], host: str) -> Path:
    """Write report.html and report.json into a folder; return the page. Raises Refused."""
    page = folder / "report.html"
    report: dict[str, Any] = {**outcome.to_dict(), "answer": answer, "host": host, "plan": plan_report(plan)}
    report["counts"] = dict(outcome.findings.counts)
    report["examples"] = outcome.findings.examples
    report["latencies"] = {
        name: latency_report(outcome.findings, name) for name in outcome.findings.latencies
    }
    make_folder(folder)
    try:
        page.write_text(render(plan, outcome, answer, host), encoding="utf-8")
        (folder / "report.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise Refused(f"cannot write the report into {folder}: {error.strerror}") from error
    return page


def plan_report(plan: Plan) -> dict[str, Any]:
    """Return the plan for JSON."""
    return {
        "users": plan.users,
        "rate": plan.rate,
        "seconds": plan.seconds,
        "size": plan.size,
        "count": plan.count,
        "shape": plan.entry.shape,
    }


def latency_report(findings: Findings, measure: str) -> dict[str, float]:
    """Return a measure's percentiles in ms."""
    found = findings.of(measure)
    shares = {f"p{share * 100:g}".replace(".", "_"): round(found.percentile(share), 2) for share in SHARES}
    return {"count": found.count, "mean": round(found.mean(), 2), **shares, "max": round(found.max_ms, 2)}


def render(plan: Plan, outcome: Outcome, answer: list[str], host: str) -> str:
    """Return the page."""
    entry, findings = plan.entry, outcome.findings
    asked = f"{plan.users} users, {plan.rate:g} a second intended, {plan.seconds:g} s, bodies of {plan.size} bytes, shape {entry.shape}"
    parts = [
        f"<h1>{escape(entry.name)} <span class='verdict {outcome.verdict}'>{outcome.verdict}</span></h1>",
        f"<p>{escape(entry.question)}</p><p class='soft'>{escape(asked)}, at {escape(bare(host))}</p>",
        _items(outcome.shortfalls),
        "<h2>Answer</h2>",
        _items(answer),
        "<h2>Over time</h2>",
        lines("Messages a second", {name: _rates(findings, name) for name in COUNTED}, "/s"),
        *(_over_time(findings, measure) for measure in findings.series),
        "<h2>Latencies</h2>",
        _latencies(findings),
        bars(f"Share of {entry.measure} up to …", _shares(findings, entry.measure), "ms"),
        "<h2>Checks and counts</h2>",
        _counts(outcome),
        *(["<h2>First faults</h2>", _items(findings.examples)] if findings.examples else []),
    ]
    title = f"Load profile {entry.name}"
    head = f"<meta charset='utf-8'><meta name='viewport' content='width=device-width'><title>{escape(title)}</title>"
    return f"<!doctype html><html lang='en'><head>{head}<style>{STYLE}</style></head><body>{''.join(parts)}</body></html>\n"


def bare(words: str) -> str:
    """Return a text without the scheme of an address: the page links nothing."""
    return re.sub(r"https?://", "", words)


def _items(words: list[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(bare(one))}</li>' for one in words)}</ul>" if words else ""


def _rates(findings: Findings, name: str) -> list[tuple[float, float]]:
    counts = findings.counted.get(name, {})
    if not counts:
        return []
    width = findings.bin_seconds
    return [(moment * width, counts.get(moment, 0) / width) for moment in range(max(counts) + 1)]


def _over_time(findings: Findings, measure: str) -> str:
    moments = sorted(findings.series[measure].items())
    named = {
        name: [(moment * findings.bin_seconds, found.percentile(share)) for moment, found in moments]
        for name, share in (("p50", 0.5), ("p99", 0.99))
    }
    return lines(f"{measure.capitalize()}: latency", dict(named), "ms")


def _shares(findings: Findings, measure: str) -> list[tuple[str, float]]:
    found = findings.of(measure)
    if not found.count:
        return []
    return [
        *((f"{share * 100:g} %", round(found.percentile(share), 2)) for share in SHARES),
        ("all", round(found.max_ms, 2)),
    ]


def _latencies(findings: Findings) -> str:
    head = "".join(f"<th class='n'>{words}</th>" for words in ("count", "mean", "p50", "p90", "p99", "most"))
    rows = "".join(
        f"<tr><td>{escape(measure)}</td><td class='n'>{found.count}</td>"
        + "".join(
            f"<td class='n'>{ms(value)}</td>"
            for value in (
                found.mean(),
                found.percentile(0.5),
                found.percentile(0.9),
                found.percentile(0.99),
                found.max_ms,
            )
        )
        + "</tr>"
        for measure, found in findings.latencies.items()
        if found.count
    )
    return f"<table><tr><th>what</th>{head}</tr>{rows}</table>"


def _counts(outcome: Outcome) -> str:
    report = {**outcome.to_dict(), **outcome.findings.counts}
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td class='n'>{value:,}</td></tr>"
        for name, value in report.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    )
    return f"<table>{rows}</table>"
