"""The sections of a report's page: their tables, charts and texts. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gantry_spark.render import charts, formats, layout, scales, shapes
from gantry_spark.render.charts import Chart, Series
from gantry_spark.render.tables import Row, table

Report = Mapping[str, Any]


class Section(NamedTuple):
    """A part of the page."""

    anchor: str
    title: str
    about: str
    content: str


def sections(report: Report) -> list[Section]:
    """Return all sections of a report, including empty ones: that is a finding."""
    return [_traffic(report), _queues(report), _latency(report), _consumed(report), _delays(report), _retries(report),
            _transactions(report), _lag(report), _tops(report), _sizes(report), _damage(report)]  # fmt: skip


def rows(report: Report, name: str) -> Sequence[Row]:
    """Return the rows of a table; none if the report has no such table."""
    return report["tables"].get(name, ())


def _table(report: Report, name: str) -> str:
    shown = layout.TABLES[name]
    return table(name, shown.caption, shown.columns, rows(report, name), shown.judge)


def _traffic(report: Report) -> Section:
    found = rows(report, "traffic_by_time")
    step = report["parameters"]["chart_step"]
    times = shapes.axis(found, step)
    drawn = ""
    if times:
        each = formats.millis(1000 * step)
        counts = shapes.by_time(found, times, "messages", _topic, empty=0)
        sizes = shapes.by_time(found, times, "bytes", _topic, empty=0)
        drawn = charts.areas(
            Chart(
                f"Messages in each {each}, by topic",
                formats.count,
                scales.linear(shapes.stacked_tops(counts)),
            ),
            times,
            counts,
        ) + charts.areas(
            Chart(
                f"Bytes in each {each}, by topic",
                formats.size,
                scales.linear(shapes.stacked_tops(sizes), 1024),
            ),
            times,
            sizes,
        )
        drawn += charts.heat(
            "Activity of each topic: darker is more, scaled per row", times, counts, formats.count
        )
    system = f"<details><summary>Topics of the system</summary>{_table(report, 'system_topics')}</details>"
    return Section(
        "traffic", "Traffic", "Every message of the log in this range, by the store's clock. Bytes are those of whole records.",
        drawn + _table(report, "topics") + system + _check(report),
    )  # fmt: skip


def _check(report: Report) -> str:
    if "check" not in report["tables"]:
        return ""
    is_open = " open" if report["check"]["state"] == "differs" else ""
    return f"<details{is_open}><summary>The check against the queues, by topic</summary>{_table(report, 'check')}</details>"


def _queues(report: Report) -> Section:
    about = "Skew is the fullest queue over the mean of all queues of the topic: 1 is even. Marked from 2 on."
    return Section("queues", "Queues", about, _table(report, "queues"))


def _latency(report: Report) -> Section:
    found = rows(report, "latency_by_time")
    times = shapes.axis(found, report["parameters"]["chart_step"])
    drawn = ""
    if times:
        names = (("p50Ms", "50 % (median)"), ("p95Ms", "95 %"), ("p99Ms", "99 %"), ("p999Ms", "99.9 %"))
        series = shapes.columns_by_time(found, times, names)
        scale = scales.logarithmic([v for one in series for v in one.values if v is not None])
        drawn = charts.lines(
            Chart("Store latency: share of messages stored within this time", formats.millis, scale),
            times,
            series,
        )
    about = (
        "From the producer's clock to the store's. Messages are counted but not measured if the producer's clock runs ahead, or if they were "
        "stored later than created (delayed, retried, committed): their age is not a latency."
    )
    return Section("latency", "Latency", about, drawn + _table(report, "latency"))


def _consumed(report: Report) -> Section:
    about = (
        "The log does not record consumption. Exact if consumers write traces; otherwise estimated from the offsets that groups "
        "commit, sampled once a second: accurate to about a second, and it shows the commit, not the read."
    )
    return Section(
        "consumed",
        "Stored to consumed",
        about,
        _table(report, "consumed_exact") + _table(report, "consumed_estimated"),
    )


def _delays(report: Report) -> Section:
    found = rows(report, "delay_curve")
    drawn = ""
    if found:
        bounds = sorted({row["atMostMs"] for row in found})
        series = shapes.by_label(found, bounds, "atMostMs", "share", "kind")[: shapes.SERIES_MAX]
        chart = Chart(
            "Share of delivered messages that were late by at most", formats.share, scales.Linear(1.0, 0.25)
        )
        drawn = charts.curves(chart, [formats.millis(bound) for bound in bounds], series)
    about = "Delivery time less due time, by the store's clock. Only an order to deliver now makes a message early; an overdue message is not in its topic yet."
    return Section(
        "delays", "Delayed messages", about, drawn + _table(report, "delays") + _table(report, "delay_latest")
    )


def _retries(report: Report) -> Section:
    found = rows(report, "retry_attempts")
    drawn = ""
    if found:
        attempts = sorted({row["attempt"] for row in found})
        series = shapes.by_label(found, attempts, "attempt", "messages", "group")[: shapes.SERIES_MAX]
        chart = Chart(
            "Redelivered messages, by attempt", formats.count, scales.linear(shapes.stacked_tops(series))
        )
        drawn = charts.bars(chart, [f"attempt {attempt}" for attempt in attempts], series)
    about = (
        "Copies in the retry topics of groups, and their dead letters. Messages that HTTP consumers give back stay in their queue and "
        "have no copy: only their dead letters appear here."
    )
    return Section(
        "retries",
        "Retries and dead letters",
        about,
        drawn + _table(report, "retries") + _table(report, "dead_letters"),
    )


def _transactions(report: Report) -> Section:
    found = rows(report, "transactions")
    drawn = ""
    if found:
        names = [str(row["topic"]) for row in found[:12]]
        states = (
            ("committed", "committed"),
            ("rolledBack", "rolled back"),
            ("open", "open"),
            ("parked", "parked"),
        )
        series = [Series(name, [row[key] for row in found[:12]]) for key, name in states]
        chart = Chart(
            "Outcome of transactions, by topic", formats.count, scales.linear(shapes.stacked_tops(series))
        )
        drawn = charts.bars(chart, names, series)
    about = "From the half message to its commit or rollback. Parked: no answer to the last check, to be decided manually."
    return Section("transactions", "Transactions", about, drawn + _table(report, "transactions"))


def _lag(report: Report) -> Section:
    found = rows(report, "lag_by_time")
    times = shapes.axis(found, report["parameters"]["chart_step"])
    drawn = ""
    if times:
        series = shapes.by_time(found, times, "lag", _group_and_topic, empty=None)
        largest = sorted(series, key=lambda one: -max(v or 0 for v in one.values))[: shapes.SERIES_MAX]
        series = [Series(one.name, shapes.held(one.values)) for one in largest]
        scale = scales.linear([v for one in series for v in one.values if v is not None])
        drawn = charts.lines(
            Chart("Messages not yet committed, by group", formats.count, scale), times, series
        )
    about = (
        "How far groups are behind: exact when the report was taken, over time from the samples of the store. "
        "The trend is messages a minute over the last ten steps."
    )
    return Section("lag", "Consumers", about, drawn + _table(report, "lag"))


def _tops(report: Report) -> Section:
    found = rows(report, "tops")
    shown = layout.TABLES["tops"]
    parts = [
        table("tops", f"Frequent {what}s", shown.columns, [row for row in found if row["what"] == what])
        for what in ("tag", "key", "producer")
    ]
    about = (
        "The most frequent of each topic. Counts are exact up to a thousand distinct ones in a topic and hour; beyond, `messages` is "
        "the lower bound and `at most` the upper bound. A producer is the host that sent the message: over HTTP that is the gateway."
    )
    drawn = f'<div class="two">{"".join(parts)}{_table(report, "distinct")}</div>'
    return Section("frequent", "Keys, tags, producers", about, drawn)


def _sizes(report: Report) -> Section:
    found = rows(report, "sizes")
    drawn = ""
    if found:
        bins = list(range(min(row["sizeBin"] for row in found), max(row["sizeBin"] for row in found) + 1))
        totals = {one: sum(row["messages"] for row in found if row["sizeBin"] == one) for one in bins}
        series = [Series("messages", list(totals.values()))]
        chart = Chart("Messages by size of their body", formats.count, scales.linear(list(totals.values())))
        drawn = charts.bars(
            chart, ["empty" if one < 0 else f"from {formats.size(2**one)}" for one in bins], series
        )
    hidden = f"<details><summary>By topic</summary>{_table(report, 'sizes')}</details>" if found else ""
    return Section("sizes", "Sizes", "Bodies as stored, in powers of two.", drawn + hidden)


def _damage(report: Report) -> Section:
    about = "Unreadable pieces of the log: skipped, counted here, and in no other table."
    return Section("damage", "Damage", about, _table(report, "damage"))


def _topic(row: Row) -> str:
    return str(row["topic"])


def _group_and_topic(row: Row) -> str:
    return f"{row['group']} ← {row['topic']}"
