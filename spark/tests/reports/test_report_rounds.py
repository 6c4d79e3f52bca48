"""Incremental reports and reports of roll-ups equal one report of everything."""

from __future__ import annotations

from typing import Any

import pytest
from report_rows import START_MS, RowsLog

from gantry_spark.reports import content, merging
from gantry_spark.reports.facts import Span
from gantry_spark.reports.progress import Progress

pytestmark = pytest.mark.cluster


def half(log: RowsLog, first: int, count: int) -> None:
    for number in range(first, first + count):
        tag = "even" if number % 2 == 0 else "odd"
        log.add(
            "orders",
            100 * number,
            queueId=number % 2,
            born_ms=100 * number - 7,
            properties={"TAGS": tag, "KEYS": f"a b{number % 3}"},
        )


@pytest.fixture(scope="module")
def rounds(spark: Any) -> list[dict[str, Any]]:
    """The tables after six messages, after ten, and those merged from the roll-ups of the second round."""
    from gantry_spark.reports.tables.build import Build, count

    log = RowsLog(spark)
    log.add("SCHEDULE_TOPIC_XXXX", 50, properties={"REAL_TOPIC": "later", "UNIQ_KEY": "D1"})
    half(log, 0, 6)
    facts = log.facts(now_ms=600)
    first = Build(spark, log, count(log, facts, Span()), facts, Span())
    stages = [stage for words, stage in first.stages() if "consumers" not in words]
    for stage in stages:
        stage()
    earlier = first.kept()
    first.close()
    seen = list(log.added)
    log.added.clear()
    half(log, 6, 4)
    log.add("later", 1060, properties={"__GANTRY_SETTLED": "SCHEDULE_TOPIC_XXXX:0:0::1/1"})
    facts = log.facts(now_ms=2000)
    second = Build(spark, log, count(log, facts, Span()), facts, Span(), earlier)
    for words, stage in second.stages():
        if "consumers" not in words:
            stage()
    second.close()
    assert len(seen) == 7
    merged = merging.merge(spark, {name: second.found.tables[name] for name in merging.ROLLUPS}, Progress(3))
    return [
        {name: table.to_pylist() for name, table in tables.items()}
        for tables in (first.found.tables, second.found.tables, merged.tables)
    ]


def orders(rows: list[dict[str, Any]]) -> dict[str, Any]:
    (row,) = [row for row in rows if row["topic"] == "orders"]
    return row


def test_a_second_round_counts_what_the_first_one_read_once(rounds: Any) -> None:
    assert [orders(tables["topics"])["messages"] for tables in rounds] == [6, 10, 10]
    assert [orders(tables["latency"])["measured"] for tables in rounds] == [6, 10, 10]
    assert {row["difference"] for row in rounds[1]["check"]} == {0}
    assert "check" not in rounds[2]


def test_sketches_of_two_rounds_are_one(rounds: Any) -> None:
    for tables, tags, keys in ((rounds[0], 3, 6), (rounds[1], 5, 10), (rounds[2], 5, 10)):
        found = {
            (row["what"], row["item"]): row["messages"] for row in tables["tops"] if row["topic"] == "orders"
        }
        assert (found[("tag", "even")], found[("key", "a")]) == (tags, keys)


def test_a_message_waiting_in_one_round_is_delivered_in_the_next(rounds: Any) -> None:
    (_, before), (_, after) = ((rows["delays"][0], rows["delays"][-1]) for rows in rounds[:2])
    assert (before["delivered"], before["waiting"]) == (0, 1)
    assert (after["delivered"], after["maxMs"]) == (1, 10)


def test_a_merged_report_can_be_rendered(rounds: Any) -> None:
    assert rounds[2]["traffic_by_time"][0]["time"].timestamp() * 1000 == START_MS // 3_600_000 * 3_600_000
    assert content.totals({**rounds[2], "topics": [], "system_topics": []})["transactions"] == 0
