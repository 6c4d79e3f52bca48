"""The tables of a report's page: captions, columns in their order, and the marks of doubtful and bad rows. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from gantry_spark.render.tables import Column, Judge, Row, fine

SKEW_WARN: Final = 2.0
OPEN_WARN_MS: Final = 60_000
UNREAD_WARN_MS: Final = 60_000


class Layout(NamedTuple):
    """The layout of a table."""

    caption: str
    columns: Sequence[Column]
    judge: Judge = fine


def _queues(row: Row) -> str:
    return "warn" if row["skew"] >= SKEW_WARN and row["queues"] > 1 else ""


def _latency(row: Row) -> str:
    return "warn" if row["clockAhead"] else ""


def _delays(row: Row) -> str:
    return "bad" if row["overdue"] else "warn" if row["early"] or row["lateOver1s"] else ""


def _overdue(row: Row) -> str:
    return "bad" if row["state"] == "overdue" else ""


def _retries(row: Row) -> str:
    return "bad" if row["deadLetters"] else ""


def _transactions(row: Row) -> str:
    return "bad" if row["parked"] else "warn" if (row["oldestOpenMs"] or 0) > OPEN_WARN_MS else ""


def _lag(row: Row) -> str:
    return "warn" if (row["perMinute"] or 0) > 0 and (row["oldestUnreadMs"] or 0) > UNREAD_WARN_MS else ""


def _check(row: Row) -> str:
    return "bad" if row["difference"] else ""


def _always_bad(_: Row) -> str:
    return "bad"


_QUANTILES: Final = (
    Column("p50Ms", "Median", "ms"), Column("p95Ms", "95 %", "ms"), Column("p99Ms", "99 %", "ms"),
    Column("p999Ms", "99.9 %", "ms"), Column("maxMs", "Most", "ms"),
)  # fmt: skip
_TOPIC: Final = Column("topic", "Topic")
_TRAFFIC: Final = (
    _TOPIC, Column("messages", "Messages", "count"), Column("share", "Share", "share"), Column("bytes", "Bytes", "bytes"),
    Column("meanBody", "Mean body", "bytes"), Column("largestBody", "Largest body", "bytes"), Column("queues", "Queues used", "count"),
    Column("kind", "Kind"), Column("firstStored", "First (UTC)", "time"), Column("lastStored", "Last (UTC)", "time"),
)  # fmt: skip
_CONSUMED: Final = (
    Column("group", "Group"), _TOPIC, Column("measured", "Messages", "count"), *_QUANTILES,
    Column("clockBehind", "Clock behind", "count"), Column("how", "How it is known"),
)  # fmt: skip

TABLES: Final[dict[str, Layout]] = {
    "topics": Layout("Topics", _TRAFFIC),
    "system_topics": Layout("Topics of the system", _TRAFFIC),
    "check": Layout("Checked against the queues", (
        _TOPIC, Column("inLog", "In the log", "count"), Column("inQueues", "In the queues", "count"),
        Column("removed", "Of deleted queues", "count"), Column("difference", "Difference", "count"), Column("queuesThatDiffer", "Queues that differ", "count"), Column("kind", "Kind"),
    ), _check),
    "queues": Layout("Queues", (
        _TOPIC, Column("skew", "Skew", "count"), Column("queues", "Queues", "count"), Column("emptyQueues", "Empty", "count"),
        Column("meanMessages", "Mean messages", "count"), Column("fullestMessages", "Fullest", "count"),
        Column("fullestQueue", "Fullest queue"), Column("fullestBytes", "Most bytes", "bytes"),
    ), _queues),
    "latency": Layout("Born to stored", (
        _TOPIC, Column("measured", "Measured", "count"), *_QUANTILES, Column("clockAhead", "Clock ahead", "count"),
        Column("mostAheadMs", "By at most", "ms"), Column("storedLater", "Stored later", "count"),
    ), _latency),
    "consumed_exact": Layout("Exact, from traces", _CONSUMED),
    "consumed_estimated": Layout("Estimated, from offset samples", _CONSUMED),
    "delays": Layout("Delivered less due", (
        Column("kind", "Delay"), Column("asked", "Asked for", "count"), Column("delivered", "Delivered", "count"),
        Column("waiting", "Waiting", "count"), Column("cancelledOrMoved", "Cancelled or moved", "count"),
        Column("overdue", "Overdue", "count"), Column("early", "Early", "count"), Column("p50Ms", "Median", "ms"), Column("p99Ms", "99 %", "ms"),
        Column("p999Ms", "99.9 %", "ms"), Column("maxMs", "Most", "ms"), Column("lateOver1s", "Over 1 s", "count"),
    ), _delays),
    "delay_latest": Layout("Overdue and latest", (
        Column("messageId", "Message"), Column("kind", "Delay"), _TOPIC, Column("state", "State"), Column("due", "Due (UTC)", "time"),
        Column("delivered", "Delivered (UTC)", "time"), Column("lateMs", "Late", "ms"),
    ), _overdue),
    "retries": Layout("Retries", (
        Column("group", "Group"), Column("retries", "Given again", "count"), Column("firstRetries", "After a first failure", "count"),
        Column("mostAttempts", "Most attempts", "count"), Column("deadLetters", "Dead letters", "count"),
    ), _retries),
    "dead_letters": Layout("Dead letters", (
        Column("group", "Group"), Column("originTopic", "From topic"), Column("messages", "Messages", "count"), Column("reason", "Reason"),
        Column("mostAttempts", "Most attempts", "count"), Column("newest", "Newest (UTC)", "time"), Column("sampleKeys", "Keys of the newest"),
        Column("samplePlace", "Where it lies"),
    )),
    "transactions": Layout("Transactions", (
        _TOPIC, Column("producerGroup", "Producer group"), Column("begun", "Begun", "count"), Column("committed", "Committed", "count"),
        Column("rolledBack", "Rolled back", "count"), Column("open", "Open", "count"), Column("parked", "Parked", "count"),
        Column("p50Ms", "Decided in (median)", "ms"), Column("p99Ms", "99 %", "ms"), Column("maxMs", "Most", "ms"),
        Column("oldestOpenMs", "Oldest open", "ms"), Column("checks", "Checks", "count"),
    ), _transactions),
    "lag": Layout("Lag of groups", (
        Column("group", "Group"), _TOPIC, Column("lag", "Lag", "count"), Column("fullestQueue", "Fullest queue", "count"),
        Column("queues", "Queues", "count"), Column("perMinute", "Trend a minute", "count"),
        Column("caughtUpInMinutes", "Caught up in (min)", "count"), Column("oldestUnreadMs", "Oldest unread", "ms"),
    ), _lag),
    "tops": Layout("Frequent", (
        Column("item", "Which"), _TOPIC, Column("messages", "Messages", "count"), Column("atMost", "At most", "count"), Column("share", "Share of topic", "share"),
    )),
    "distinct": Layout("How many different ones, about", (_TOPIC, Column("keys", "Keys", "count"), Column("producers", "Producers", "count"))),
    "sizes": Layout("Sizes of bodies", (
        _TOPIC, Column("fromBytes", "From", "bytes"), Column("belowBytes", "Below", "bytes"), Column("messages", "Messages", "count"),
        Column("bodyBytes", "Bytes", "bytes"),
    )),
    "damage": Layout("Damaged pieces", (
        Column("broker", "Broker"), Column("position", "Position", "count"), Column("size", "Bytes", "bytes"), Column("why", "Why"),
    ), _always_bad),
}  # fmt: skip
