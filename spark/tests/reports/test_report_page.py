"""The page of a report: complete without network access, text of users is escaped, tables carry their sort keys. No Spark here."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from gantry_spark import render as rendering
from gantry_spark.render import formats, scales
from gantry_spark.render.listing import Entry
from gantry_spark.render.listing import render as render_list
from gantry_spark.render.page import render

STYLE = Path(rendering.__file__).with_name("style.css")
EVIL = "<script>alert(1)</script> http://evil.example/x?a=1&b=\"2\" 'https://evil.example'"
TIMES = ["2026-11-22T10:00:00.000Z", "2026-11-22T10:00:10.000Z", "2026-11-22T10:00:40.000Z"]


def report(**tables: Any) -> dict[str, Any]:
    """The content of a report.json."""
    totals: dict[str, Any] = dict.fromkeys(
        ("messages", "bytes", "bodyBytes", "topics", "systemMessages", "messagesPerSecond", "bytesPerSecond", "groups", "lag", "delayed",
         "overdue", "early", "transactions", "openTransactions", "retries", "deadLetters", "damaged"), 0,
    )  # fmt: skip
    totals |= {
        "latencyP99Ms": None,
        "delayP99Ms": None,
        "firstStored": TIMES[0],
        "lastStored": TIMES[-1],
        "messages": 1_234_567,
    }
    return {
        "title": "Gantry report", "generatedAt": TIMES[0], "seconds": 12.0, "range": {"from": None, "to": None},
        "snapshot": {"id": "s1", "createdMs": 0, "brokers": ["a"]}, "totals": totals,
        "check": {"state": "equal", "difference": 0, "words": "Checked against the queues: equal."}, "notes": [],
        "parameters": {"step": 10, "chart_step": 10}, "tables": tables,
    }  # fmt: skip


def full() -> dict[str, Any]:
    """A report with rows in most tables; all names try to inject HTML."""
    topic = {"topic": EVIL, "kind": "user", "messages": 1_234_567, "bytes": 3 << 20, "share": 0.75, "meanBody": 80.5, "largestBody": 4096,
             "queues": 4, "firstStored": TIMES[0], "lastStored": TIMES[-1]}  # fmt: skip
    traffic = [{"time": at, "topic": EVIL, "messages": n, "bytes": 100 * n} for n, at in enumerate(TIMES, 1)]
    quantiles = {"p50Ms": 1.0, "p95Ms": 20.0, "p99Ms": 300.0, "p999Ms": 4000.0, "maxMs": 5000}
    return report(
        topics=[topic, topic | {"topic": "small", "messages": 9, "share": None}],
        traffic_by_time=traffic,
        latency_by_time=[{"time": at, "measured": 5, **quantiles} for at in TIMES],
        latency=[{"topic": EVIL, "measured": 5, **quantiles, "clockAhead": 2, "mostAheadMs": 9, "storedLater": 0}],
        tops=[{"what": "key", "item": EVIL, "topic": EVIL, "messages": 7, "share": 0.5}],
        dead_letters=[{"group": "g", "originTopic": EVIL, "messages": 1, "reason": EVIL, "mostAttempts": 3, "newest": TIMES[0],
                       "sampleKeys": EVIL, "samplePlace": "a:0:0"}],
        lag_by_time=[{"time": at, "group": "g", "topic": EVIL, "lag": n} for n, at in enumerate(TIMES)],
        delay_curve=[{"kind": "level 1 (1s)", "atMostMs": n, "share": n / 4} for n in (1, 2, 4)],
        retry_attempts=[{"group": EVIL, "attempt": n, "messages": n} for n in (1, 2)],
        sizes=[{"topic": "small", "sizeBin": n, "fromBytes": 2**n, "belowBytes": 2 ** (n + 1), "messages": n, "bodyBytes": 1} for n in (5, 9)],
    )  # fmt: skip


class Read(HTMLParser):
    """What a browser parses: tags with their attributes, and text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def page() -> str:
    return render(full(), {"topics": "-- words\nSELECT 1 < 2 AND 'http://x'"})


def test_the_file_contains_no_address_whatever_users_send(page: str) -> None:
    assert not re.search(r"(https?|ftp|file|wss?)://|url\(|@import", page, re.IGNORECASE)
    read = Read(page)
    assert not [attributes for _, attributes in read.tags if {"src", "srcset", "xmlns"} & attributes.keys()]
    assert {(a["href"] or "")[0] for a in read.all("a")} == {"#"}
    assert not read.all("link")


def test_user_content_is_only_text(page: str) -> None:
    read = Read(page)
    assert len(read.all("script")) == 1
    assert EVIL in read.texts
    assert any(
        EVIL in json.loads(a["data-under"] or "")["series"][0]["name"]
        for a in read.all("div")
        if "data-under" in a
    )


def test_cells_carry_their_sort_values(page: str) -> None:
    cells = [a["data-v"] for tag, a in Read(page).tags if tag in ("td", "th") and "data-v" in a]
    assert {"1234567", "80.5", "0.75", "", repr(1763805600.0 + 365 * 86400)} <= set(cells)
    assert "1,234,567" in page


def test_every_heading_sorts_by_a_button_and_numbers_have_even_digits(page: str) -> None:
    heads = re.findall(r"<thead><tr>(.*?)</tr>", page)
    assert heads
    assert all(head.count("<th ") == head.count('<button type="button">') for head in heads)
    assert "font-variant-numeric:tabular-nums" in page


def test_dark_is_chosen_by_the_system_and_by_a_switch(page: str) -> None:
    assert "@media (prefers-color-scheme:dark){:root:not([data-theme=light])" in page
    assert ":root[data-theme=dark]" in page
    assert 'class="theme"' in page


def test_pictures_have_titles_and_steps_without_messages_are_zero(page: str) -> None:
    assert (
        page.count("<svg") == page.count('<svg role="img"') == len(re.findall(r"<svg[^>]*><title>[^<]", page))
    )
    chart = next(json.loads(a["data-under"] or "") for a in Read(page).all("div") if "data-under" in a)
    assert [label[-8:] for label in chart["labels"]] == [
        "10:00:00",
        "10:00:10",
        "10:00:20",
        "10:00:30",
        "10:00:40",
    ]
    assert chart["series"][0]["values"] == ["1", "2", "0", "0", "3"]


def test_the_statements_are_printed(page: str) -> None:
    assert "SELECT 1 < 2 AND 'http://x'" in Read(page).texts[-1] or any(
        "SELECT 1 < 2" in text for text in Read(page).texts
    )
    assert ":chart_step = 10" in page


def test_a_difference_from_the_queues_is_shown_before_all_metrics() -> None:
    bad = report(
        topics=[],
        system_topics=[],
        check=[{"topic": "t", "inLog": 1, "inQueues": 2, "difference": -1, "queuesThatDiffer": 1}],
    )
    bad["check"] = {
        "state": "differs",
        "difference": -1,
        "words": "Checked against the queues: differs by -1 messages.",
    }
    page = render(bad, {})
    assert page.index('class="said bad">Checked') < page.index('class="tiles"')
    assert "<details open>" in page


def test_an_empty_report_says_so_in_every_section() -> None:
    page = render(report(), {})
    assert page.count("nothing in this range") > 10
    assert "<svg" not in page


def test_a_list_of_reports_links_to_each_by_a_relative_path() -> None:
    page = render_list([Entry("2026 <b>", TIMES[0], None, None, 5, 6, "equal", "a, b")])
    assert 'href="2026%20%3Cb%3E/report.html"' in page
    assert "http" not in page


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1500, "1.5 s"),
        (90_000, "1.5 min"),
        (5_400_000, "1.5 h"),
        (86_400_000, "1 d"),
        (None, "-"),
    ],
)
def test_milliseconds_are_formatted(value: float | None, words: str) -> None:
    assert formats.millis(value) == words


@pytest.mark.parametrize(
    ("value", "words"), [(0, "0 B"), (1023, "1,023 B"), (1536, "1.5 KiB"), (500 << 20, "500 MiB")]
)
def test_bytes_are_formatted(value: int, words: str) -> None:
    assert formats.size(value) == words


@pytest.mark.parametrize("most", [0.3, 1, 7, 99, 100, 101, 12_345, 9_999_999])
def test_an_axis_covers_its_values_and_ends_at_a_round_number(most: float) -> None:
    scale = scales.linear([0, most])
    assert most <= scale.top <= 2.5 * most
    assert scale.ticks()[-1].place == pytest.approx(1)
    logarithmic = scales.logarithmic([most])
    assert 0 <= logarithmic.place(most) <= 1
    assert logarithmic.ticks()[-1].place == pytest.approx(1)


def test_tables_wrap_text_and_cut_nothing() -> None:
    """At desktop width every column is visible; only numbers stay on one line, and a table that is still too wide scrolls in its box."""
    rules = re.findall(r"([^{}]+)\{([^{}]*)\}", STYLE.read_text(encoding="utf-8"))
    of_cells = [(names, body) for names, body in rules if re.search(r"\b(th|td|thead button)\b", names)]
    assert len(of_cells) > 5
    assert [names.strip() for names, body in of_cells if "nowrap" in body] == ["td.n"]
    assert not [names for names, body in of_cells if re.search(r"overflow:hidden|text-overflow", body)]
    assert any(names.strip() == ".table" and "overflow-x:auto" in body for names, body in rules)


def test_headings_and_words_are_plain() -> None:
    text = " ".join(Read(render(full(), {})).texts)
    assert "Median" in text
    assert "50 % (median)" in text
    assert "(delayed, retried, committed)" in text
