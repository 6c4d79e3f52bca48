"""A run as one page that needs nothing beside itself, and as JSON with every figure. Rendering is pure; write_report writes."""

import json
import re
from html import escape
from pathlib import Path
from typing import Any

from gantry_loadtest.charts import bars, lines
from gantry_loadtest.findings import Findings
from gantry_loadtest.options import Plan, Refused
from gantry_loadtest.verdict import Outcome
from gantry_loadtest.wording import ms

SHARES = (0.5, 0.75, 0.9, 0.95, 0.99, 0.999)
COUNTED = ("intended", "acknowledged", "delivered", "refused")
STYLE = """
:root{color-scheme:light dark;--ink:#1c1e21;--soft:#667;--paper:#fff;--card:#f5f6f8;--line:#d8dbe0;--a:#2563eb;--b:#d9480f;--c:#2b8a3e;--d:#9c36b5}
@media (prefers-color-scheme:dark){:root{--ink:#e7e9ec;--soft:#9aa3af;--paper:#14161a;--card:#1d2026;--line:#353a43;--a:#7aa7ff;--b:#ff9a5c;--c:#69db7c;--d:#da77f2}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:780px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.4rem;margin:0}h2{font-size:1.05rem;margin:2rem 0 .5rem}.soft{color:var(--soft)}
.verdict{display:inline-block;padding:.1rem .7rem;border-radius:1rem;font-weight:600;color:var(--paper)}.pass{background:var(--c)}.fail{background:var(--b)}
figure{margin:1rem 0;background:var(--card);border-radius:8px;padding:.7rem}figcaption{font-weight:600;margin-bottom:.3rem}
svg{width:100%;height:auto}.grid{stroke:var(--line)}.tick{fill:var(--soft);font-size:11px}.bar{fill:var(--a)}
.line{fill:none;stroke-width:1.8}.s0{stroke:var(--a);--k:var(--a)}.s1{stroke:var(--b);--k:var(--b)}.s2{stroke:var(--c);--k:var(--c)}.s3{stroke:var(--d);--k:var(--d)}
.key{font-weight:400;margin-left:.8rem}.key::before{content:"";display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.35em;background:var(--k)}.dot{fill:var(--k)}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.25rem .6rem;border-bottom:1px solid var(--line)}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
code{background:var(--card);padding:.1rem .3rem;border-radius:4px}
"""


def write_report(folder: Path, plan: Plan, outcome: Outcome, answer: list[str], host: str) -> Path:
    """Write report.html and report.json into a folder; return the page. Raises Refused."""
    page = folder / "report.html"
    told: dict[str, Any] = {**outcome.to_dict(), "answer": answer, "host": host, "plan": plan_told(plan)}
    told["counts"] = dict(outcome.findings.counts)
    told["examples"] = outcome.findings.examples
    told["latencies"] = {name: latency_told(outcome.findings, name) for name in outcome.findings.latencies}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        page.write_text(render(plan, outcome, answer, host), encoding="utf-8")
        (folder / "report.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise Refused(f"cannot write the report into {folder}: {error.strerror}") from error
    return page


def plan_told(plan: Plan) -> dict[str, Any]:
    """Return what was asked for, as JSON tells it."""
    return {
        "users": plan.users,
        "rate": plan.rate,
        "seconds": plan.seconds,
        "size": plan.size,
        "count": plan.count,
        "shape": plan.entry.shape,
    }


def latency_told(findings: Findings, measure: str) -> dict[str, float]:
    """Return a measure's figures in ms."""
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
    """Return words without the scheme of an address: the page holds none, so that it calls nothing."""
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
    told = {**outcome.to_dict(), **outcome.findings.counts}
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td class='n'>{value:,}</td></tr>"
        for name, value in told.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    )
    return f"<table>{rows}</table>"
