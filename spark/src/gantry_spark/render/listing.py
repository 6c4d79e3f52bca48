"""The page that lists a folder of reports. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote

from gantry_spark.render import formats
from gantry_spark.render.formats import safe
from gantry_spark.render.page import document, theme_button


class Entry(NamedTuple):
    """A report of the list; times are ISO texts."""

    name: str
    made: str
    first: str | None
    last: str | None
    messages: int
    size: int
    check: str
    brokers: str


def render(entries: Sequence[Entry]) -> str:
    """Return the page."""
    heads = (("Report", ""), ("Made (UTC)", ""), ("First message", ""), ("Last message", ""), ("Messages", ' class="n"'),
             ("Bytes", ' class="n"'), ("Check", ""), ("Brokers", ""))  # fmt: skip
    head = "".join(
        f'<th scope="col"{kind}><button type="button">{words}</button></th>' for words, kind in heads
    )
    body = "".join(_row(entry) for entry in entries)
    listed = f'<div class="table"><table><caption>Newest first</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    nothing = '<p class="nothing">There is no report here yet.</p>'
    return document(
        "Gantry reports",
        f"<header><div><h1>Gantry reports</h1><p class=soft>{len(entries)} in this folder</p></div>{theme_button()}</header>"
        f"<main><section>{listed if entries else nothing}</section></main>",
    )


def _row(entry: Entry) -> str:
    link = f'<a href="{safe(quote(entry.name))}/report.html">{safe(entry.name)}</a>'
    cells = [(entry.name, link, "")]
    cells += [(at or "", safe(formats.moment(at)), "") for at in (entry.made, entry.first, entry.last)]
    cells += [
        (repr(entry.messages), formats.count(entry.messages), ' class="n"'),
        (repr(entry.size), formats.size(entry.size), ' class="n"'),
    ]
    cells += [(words, safe(words), "") for words in (entry.check, entry.brokers)]
    drawn = "".join(f'<td{kind} data-v="{safe(value)}">{words}</td>' for value, words, kind in cells)
    return f'<tr class="bad">{drawn}</tr>' if entry.check == "differs" else f"<tr>{drawn}</tr>"
