"""A report as one HTML page, from the content of `report.json`. Reads its style and script from files; otherwise pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, Final

from gantry_spark.render import formats, tiles
from gantry_spark.render.formats import safe
from gantry_spark.render.sections import Section, sections

_FOLDER: Final = files("gantry_spark.render")


def render(report: Mapping[str, Any], sql: Mapping[str, str]) -> str:
    """Return the page of a report; `sql` is the content of its appendix."""
    parts = sections(report)
    links = "".join(
        f'<li><a href="#{part.anchor}">{safe(part.anchor.capitalize())}</a></li>' for part in parts
    )
    body = "".join(_section(part) for part in parts)
    content = (
        f"<header><div><h1>{safe(report['title'])}</h1><p class=soft>{safe(_range(report))}</p></div>{theme_button()}</header>"
        f'<nav aria-label="Sections"><ul>{links}<li><a href="#sql">SQL</a></li></ul></nav>'
        f"<main>{_said(report)}{tiles.tiles(report)}{body}{_appendix(report, sql)}</main>{_footer(report)}"
    )
    return document(str(report["title"]), content)


def document(title: str, content: str) -> str:
    """Return a complete HTML file with style and script."""
    style = (_FOLDER / "style.css").read_text(encoding="utf-8")
    script = (_FOLDER / "script.js").read_text(encoding="utf-8")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{safe(title)}</title><style>{style}</style></head><body>{content}<script>{script}</script></body></html>\n"
    )


def theme_button() -> str:
    """Return the colour switch; it needs the script, so the script shows it."""
    return '<button class="theme" type="button" hidden>Colours: auto</button>'


def _section(part: Section) -> str:
    return f'<section id="{part.anchor}"><h2>{safe(part.title)}</h2><p class="about">{safe(part.about)}</p>{part.content}</section>'


def _range(report: Mapping[str, Any]) -> str:
    totals = report["totals"]
    brokers = ", ".join(report["snapshot"].get("brokers", ()))
    if not totals["messages"] and not totals["systemMessages"]:
        return f"{brokers} · no messages"
    asked = "" if report["range"] == {"from": None, "to": None} else " (a part of the log)"
    first, last = formats.moment(totals["firstStored"]), formats.moment(totals["lastStored"])
    return f"{brokers} · {first} to {last} UTC{asked}"


def _said(report: Mapping[str, Any]) -> str:
    """Return the notes above the totals: the check, missing and damaged data."""
    check = report["check"]
    verdict = {"equal": "good", "differs": "bad"}.get(check["state"], "warn")
    said: Sequence[str] = [f'<p class="said {verdict}">{safe(check["words"])}</p>']
    return "".join([*said, *(f'<p class="said warn">{safe(note)}</p>' for note in report["notes"])])


def _appendix(report: Mapping[str, Any], sql: Mapping[str, str]) -> str:
    values = ", ".join(f":{name} = {value}" for name, value in report["parameters"].items())
    statements = "".join(
        f"<details><summary>{safe(name)}</summary><pre>{safe(text.strip())}</pre></details>"
        for name, text in sql.items()
    )
    about = (
        f"Every statement of this report, as it ran, with {values}. Views have the names of their statements."
    )
    return f'<section id="sql"><h2>SQL</h2><p class="about">{safe(about)}</p>{statements}</section>'


def _footer(report: Mapping[str, Any]) -> str:
    snapshot = report["snapshot"]
    taken = formats.moment(snapshot.get("createdMs"))
    words = f"Snapshot {snapshot.get('id') or 'of files'} of {taken} UTC. Report made in {report['seconds']:.0f} s. All times are UTC."
    return f"<footer><p>{safe(words)}</p></footer>"
