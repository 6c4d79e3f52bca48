"""The tables of a report over a small log whose numbers are calculated by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from report_rows import START_MS, RowsLog

from gantry_spark.reports.counting.kinds import kind_of
from gantry_spark.reports.facts import Committed, Configured, Span

pytestmark = pytest.mark.cluster


def at(ms: int) -> datetime:
    return datetime.fromtimestamp((START_MS + ms) / 1000, UTC)


def settled(topic: str, queue: int, offset: int) -> dict[str, str]:
    return {"__GANTRY_SETTLED": f"{topic}:{queue}:{offset}::1/1"}


def log_of_everything() -> RowsLog:
    log = RowsLog()
    for number in range(
        10
    ):  # orders: seven messages in queue 0, three in queue 1, one each 100 ms, 1 … 10 ms old
        log.add(
            "orders", 100 * number, queueId=int(number >= 7), born_ms=100 * number - number - 1,
            bodySize=100 if number < 8 else 1024, properties={"TAGS": "new" if number < 6 else "paid", "KEYS": f"k{number % 2} all"},
        )  # fmt: skip
    log.add("orders", 1000, queueId=1, born_ms=1400, bodySize=0)  # its producer's clock runs ahead by 400 ms
    log.add("SCHEDULE_TOPIC_XXXX", 1100, queueId=1, properties={"REAL_TOPIC": "later", "UNIQ_KEY": "D1"})
    log.add("later", 6103, born_ms=1100, properties=settled("SCHEDULE_TOPIC_XXXX", 1, 0) | {"UNIQ_KEY": "D1"})
    timer = {"REAL_TOPIC": "later", "TIMER_OUT_MS": str(START_MS + 3000)}
    for key in ("D2", "D3", "D4"):
        log.add("rmq_sys_wheel_timer", 1200, properties=timer | {"UNIQ_KEY": key})
    log.add("later", 5500, properties=settled("rmq_sys_wheel_timer", 0, 0) | {"UNIQ_KEY": "D2"})
    log.add("GANTRY_SYS_MARKS", 1300, properties=settled("rmq_sys_wheel_timer", 0, 1))  # D3: cancelled
    return log


def with_transactions(log: RowsLog) -> RowsLog:
    halves = [
        log.add("RMQ_SYS_TRANS_HALF_TOPIC", 2000 + number, properties={"REAL_TOPIC": "paid", "UNIQ_KEY": key, "PGROUP": "shop"})
        for number, key in enumerate(["T1", "T2", "T3"])
    ]  # fmt: skip
    checked = {"UNIQ_KEY": "T2", "TRANSACTION_CHECK_TIMES": "1", "__GANTRY_BEGUN": str(START_MS + 2001)}
    log.add(
        "RMQ_SYS_TRANS_HALF_TOPIC", 2500, properties=checked | {"REAL_TOPIC": "paid", "PGROUP": "shop"}
    )  # offset 3
    log.add("RMQ_SYS_TRANS_OP_HALF_TOPIC", 2500, body=b"1")
    log.add(
        "paid",
        2040,
        sysFlag=8,
        preparedTransactionOffset=halves[0]["physicalOffset"],
        properties={"REAL_TOPIC": "paid"},
    )
    log.add("RMQ_SYS_TRANS_OP_HALF_TOPIC", 2040, body=b"0")
    log.add("RMQ_SYS_TRANS_OP_HALF_TOPIC", 2701, body=b"3")
    return log


def with_consumers(log: RowsLog) -> RowsLog:
    log.add("%RETRY%billing", 3000, reconsumeTimes=1)
    log.add("%RETRY%billing", 3100, reconsumeTimes=2)
    dead = {
        "RETRY_TOPIC": "orders",
        "__GANTRY_DLQ_REASON": "no such customer",
        "__GANTRY_DLQ_ATTEMPTS": "3",
        "KEYS": "k1",
    }
    log.add("%DLQ%billing", 3200, reconsumeTimes=2, properties=dead)
    log.sample(2000, "billing", "orders", (0, 0, 7))
    log.sample(3500, "billing", "orders", (0, 4, 7))
    trace = "\x02".join([f"SubBefore\x01{START_MS + 6110}\x01region\x01audit\x01r1\x01D1\x010\x01keys", ""])
    log.add("RMQ_SYS_TRACE_TOPIC", 6200, body=trace.encode())
    return log


@pytest.fixture(scope="module")
def tables(spark: Any) -> dict[str, list[dict[str, Any]]]:
    from gantry_spark.reports.tables.build import Build, count

    log = with_consumers(with_transactions(log_of_everything()))
    log.spark = spark
    del log.next["paid", 0]  # as after the deletion of that topic: its message is still in the log
    facts = log.facts(
        Committed("billing", "a", "orders", 0, 4), Committed("billing", "a", "orders", 1, 4), now_ms=10_000
    )
    facts = replace(facts, configured=tuple(Configured("a", "later", queue) for queue in range(4)))
    build = Build(spark, log, count(log, facts, Span()), facts, Span())
    for _, stage in build.stages():
        stage()
    found = {name: table.to_pylist() for name, table in build.found.tables.items()}
    build.close()
    return found


def one(rows: list[dict[str, Any]], **wanted: Any) -> dict[str, Any]:
    (row,) = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    return row


def test_user_topics_are_counted_separately_from_system_topics(tables: Any) -> None:
    orders = one(tables["topics"], topic="orders")
    assert (orders["messages"], orders["bytes"], orders["queues"]) == (11, 2200, 2)
    assert orders["bodyBytes"] == 8 * 100 + 2 * 1024
    assert (orders["firstStored"], orders["lastStored"]) == (at(0), at(1000))
    assert {row["topic"] for row in tables["topics"]} == {
        "orders",
        "later",
        "paid",
        "%RETRY%billing",
        "%DLQ%billing",
    }
    assert one(tables["system_topics"], topic="RMQ_SYS_TRANS_HALF_TOPIC")["messages"] == 4
    assert sum(row["messages"] for row in tables["traffic_by_time"]) == sum(
        row["messages"] for row in tables["topics"]
    )


def test_sql_and_the_counting_pass_agree_on_kinds_of_topics(tables: Any, spark: Any) -> None:
    names = (
        "orders",
        "%RETRY%a",
        "%DLQ%a",
        "RMQ_SYS_TRACE_TOPIC",
        "rmq_sys_wheel_timer",
        "GANTRY_SYS_MARKS",
        "OFFSET_MOVED_EVENT",
    )
    for name in (*names, "SCHEDULE_TOPIC_XXXX", "TRANS_CHECK_MAX_TIME_TOPIC", "my_SCHEDULE_TOPIC_XXXX"):
        assert spark.sql("SELECT kind_of(:name)", args={"name": name}).first()[0] == kind_of(name)


def test_skew_is_the_fullest_queue_over_the_mean(tables: Any) -> None:
    orders = one(tables["queues"], topic="orders")
    assert (orders["fullestQueue"], orders["fullestMessages"], orders["skew"]) == (
        "a:0",
        7,
        round(7 / 5.5, 2),
    )


def test_queues_that_were_never_written_count_for_their_topic(tables: Any) -> None:
    later = one(tables["queues"], topic="later")
    assert (later["queues"], later["emptyQueues"], later["skew"]) == (4, 3, 4.0)
    assert not [row for row in tables["check"] if row["topic"] == "later" and row["difference"]]


def test_sizes_fall_into_powers_of_two(tables: Any) -> None:
    bins = {
        row["sizeBin"]: (row["fromBytes"], row["belowBytes"], row["messages"])
        for row in tables["sizes"]
        if row["topic"] == "orders"
    }
    assert bins == {-1: (0, 1, 1), 6: (64, 128, 8), 10: (1024, 2048, 2)}


def test_the_log_is_checked_against_the_queues(tables: Any) -> None:
    assert {row["difference"] for row in tables["check"]} == {0}
    assert one(tables["check"], topic="orders")["inQueues"] == 11
    assert [(row["topic"], row["removed"]) for row in tables["check"] if row["removed"]] == [("paid", 1)]


def test_a_message_from_a_clock_ahead_is_counted_but_not_measured(tables: Any) -> None:
    orders = one(tables["latency"], topic="orders")
    assert (orders["measured"], orders["p50Ms"], orders["maxMs"]) == (10, 5.5, 10)
    assert (orders["clockAhead"], orders["mostAheadMs"]) == (1, 400)
    assert one(tables["latency"], topic="later")["storedLater"] == 2
    assert one(tables["latency"], topic="paid")["measured"] is None


def test_each_key_of_a_message_counts(tables: Any) -> None:
    assert all(row["messages"] == row["atMost"] for row in tables["tops"])
    assert (
        one(tables["distinct"], topic="orders")["keys"],
        one(tables["distinct"], topic="orders")["producers"],
    ) == (3, 1)
    tops = {(row["what"], row["item"]): row["messages"] for row in tables["tops"] if row["topic"] == "orders"}
    assert tops[("key", "all")] == 10
    assert tops[("key", "k0")] == tops[("key", "k1")] == 5
    assert tops[("tag", "new")] == 6
    assert tops[("producer", "10.0.0.9")] == 11


def test_lateness_of_a_delay_counts_from_its_due_time(tables: Any) -> None:
    level = one(tables["delays"], kind="level 2 (5s)")
    assert (level["delivered"], level["p50Ms"], level["maxMs"], level["early"]) == (1, 3.0, 3, 0)
    instant = one(tables["delays"], kind="instant")
    assert (instant["asked"], instant["delivered"], instant["cancelledOrMoved"], instant["overdue"]) == (
        3,
        1,
        1,
        1,
    )
    assert (instant["maxMs"], instant["lateOver1s"]) == (2500, 1)
    assert [row["messageId"] for row in tables["delay_latest"]] == ["D4", "D2", "D1"]


def test_a_transaction_has_the_outcome_of_its_newest_copy(tables: Any) -> None:
    (row,) = tables["transactions"]
    assert (row["begun"], row["committed"], row["rolledBack"], row["open"]) == (3, 1, 1, 1)
    assert row["maxMs"] == 700  # T2: begins at 2001, its checked copy is rolled back at 2701
    assert row["p50Ms"] == (40 + 700) / 2
    assert (row["oldestOpenMs"], row["checks"]) == (10_000 - 2002, 1)


def test_retries_and_dead_letters_by_group(tables: Any) -> None:
    (row,) = tables["retries"]
    assert (row["group"], row["retries"], row["firstRetries"], row["mostAttempts"], row["deadLetters"]) == (
        "billing",
        2,
        1,
        2,
        1,
    )
    (dead,) = tables["dead_letters"]
    assert (dead["originTopic"], dead["reason"], dead["mostAttempts"], dead["samplePlace"]) == (
        "orders",
        "no such customer",
        3,
        "a:0:0",
    )


def test_lag_counts_from_the_committed_offsets(tables: Any) -> None:
    (row,) = tables["lag"]
    assert (row["lag"], row["fullestQueue"], row["oldestUnreadMs"]) == (3, 3, 10_000)
    assert [(row["time"], row["lag"]) for row in tables["lag_by_time"]][:2] == [(at(2000), 7), (at(3000), 3)]


def test_an_estimate_is_labelled_and_interpolates_between_samples(tables: Any) -> None:
    (row,) = tables["consumed_estimated"]
    assert row["how"].startswith("estimated")
    # offsets 0 … 3 of queue 0, stored 0, 100, 200, 300: their middle, 150, was taken at 3500 - 500
    assert (row["measured"], row["p50Ms"]) == (4, 2850)


def test_traces_give_the_exact_time_of_consumption(tables: Any) -> None:
    (row,) = tables["consumed_exact"]
    assert (row["group"], row["topic"], row["measured"], row["p50Ms"]) == ("audit", "later", 1, 7.0)
