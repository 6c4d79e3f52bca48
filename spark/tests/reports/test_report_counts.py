"""Counts of a piece of a log equal the counts of its messages one by one."""

from __future__ import annotations

import math
import random
from collections import Counter as Counted
from typing import Any

import numpy as np
import pyarrow as pa
from report_rows import START_MS

from gantry_spark.decode.schema import arrow_schema
from gantry_spark.reports.counting import counts
from gantry_spark.reports.counting.frequent import HASH_MAX, Frequent, hashed
from gantry_spark.reports.counting.kinds import kind_of

TOPICS = ("orders", "paid", "%RETRY%billing", "%DLQ%billing", "GANTRY_SYS_MARKS")


def messages(count: int) -> list[dict[str, Any]]:
    chance = random.Random(7)
    found: list[dict[str, Any]] = []
    for number in range(count):
        stored_ms = START_MS + 700 * number
        born_ms = stored_ms - chance.choice((0, 1, 127, 128, 129, 70_000, -5))
        found.append({
            "topic": chance.choice(TOPICS), "queueId": chance.randrange(3), "queueOffset": number,
            "storeTimestamp": stored_ms * 1000, "bornTimestamp": None if number % 50 == 0 else born_ms * 1000,
            "storeSize": 200 + number, "bodySize": chance.choice((0, 1, 2, 3, 127, 128, (1 << 22) - 1, 1 << 22)),
            "reconsumeTimes": int(number % 9 == 0), "sysFlag": 8 if number % 11 == 0 else 0,
            "tags": chance.choice((None, "new", "paid")), "keys": chance.choice((None, "a", "a b", " c  d ")),
            "bornHost": chance.choice(("10.0.0.1:5", "10.0.0.1:6", "[2001:db8::1]:7")),
            counts.SETTLED: "mark" if number % 13 == 0 else None, counts.REAL_TOPIC: None,
        })  # fmt: skip
    return found


def counted(rows: list[dict[str, Any]], part: str) -> list[dict[str, Any]]:
    """Count in batches of uneven sizes, as a log returns them."""
    counter = counts.Counter("a", 10, 1000)
    at, size = 0, 1
    while at < len(rows):
        counter.add(pa.RecordBatch.from_pylist(rows[at : at + size], schema=arrow_schema(counts.COLUMNS)))
        at, size = at + size, size * 3
    table = pa.Table.from_batches(counter.batches(), schema=counts.SCHEMA)
    return [row for row in table.to_pylist() if row["part"] == part]


def second(row: dict[str, Any]) -> int:
    return row["storeTimestamp"] // 1_000_000


def test_every_message_is_counted_once_by_time_queue_and_size() -> None:
    rows = messages(500)
    found = Counted[Any]()
    for row in counted(rows, "traffic"):
        found[int(row["time"].timestamp()), row["topic"], row["queueId"], row["bin"]] += row["messages"]
    assert found == Counted(
        (second(row) // 10 * 10, row["topic"], row["queueId"], math.floor(math.log2(row["bodySize"])) if row["bodySize"] else -1)
        for row in rows
    )  # fmt: skip
    assert sum(row["bytes"] for row in counted(rows, "traffic")) == sum(row["storeSize"] for row in rows)
    assert {row["broker"] for row in counted(rows, "traffic")} == {"a"}


def bin_of(row: dict[str, Any]) -> tuple[str, int | None]:
    if row["reconsumeTimes"] or row["sysFlag"] or row[counts.SETTLED]:
        return "later", None
    if row["bornTimestamp"] is None:
        return "measured", None
    ms = (row["storeTimestamp"] - row["bornTimestamp"]) // 1000
    if ms < 0:
        return "ahead", None
    width = 1 << max(ms.bit_length() - 7, 0)
    return "measured", ms // width * width


def test_latencies_fall_into_bins_that_are_fine_enough() -> None:
    rows = messages(500)
    found = Counted[Any]()
    for row in counted(rows, "latency"):
        found[row["topic"], row["what"], row["bin"]] += row["messages"]
    assert found == Counted((row["topic"], *bin_of(row)) for row in rows if kind_of(row["topic"]) != "system")


def test_words_are_those_of_users_messages_and_each_key_counts() -> None:
    rows = messages(500)
    expected = Counted[Any]()
    for row in rows:
        if kind_of(row["topic"]) == "user":
            words = [
                ("tag", row["tags"]),
                *(("key", key) for key in (row["keys"] or "").split()),
                ("producer", row["bornHost"].rpartition(":")[0]),
            ]
            expected.update((row["topic"], what, word) for what, word in words if word)
    found = Counted[Any]()
    for row in counted(rows, "word"):
        found[row["topic"], row["what"], row["item"]] += row["messages"]
    assert found == expected
    hashes = {(row["topic"], row["what"], row["bin"]) for row in counted(rows, "hash")}
    assert Counted((topic, what) for topic, what, _ in hashes) == Counted(
        (topic, what) for topic, what, _ in expected
    )


def test_frequent_words_are_found_among_more_than_are_kept() -> None:
    chance = random.Random(3)
    words = [f"word-{chance.randrange(300_000)}" for _ in range(400_000)] + ["often"] * 3000
    chance.shuffle(words)
    frequent = Frequent(50)
    for at in range(0, len(words), 50_000):
        some = words[at : at + 50_000]
        frequent.add(np.zeros(len(some), np.int64), pa.array(some))
    found = {row["word"]: row["count"] for row in frequent.counts().to_pylist()}
    missed = found.pop(None)
    assert len(found) <= 50
    true = Counted(words)
    assert all(count <= true[word] <= count + missed for word, count in found.items())
    assert max(true[word] for word in true if word not in found) <= missed
    assert found["often"] > 2900
    least = frequent.hashes()["hash"].to_pylist()
    assert least == sorted(int(h) for h in hashed(pa.array([*true])))[:50]


def test_hashes_are_spread_evenly_and_depend_on_each_byte() -> None:
    words = [f"{'x' * (number % 40)}{number}" for number in range(20_000)]
    found = hashed(pa.array(words)).astype(np.float64) / HASH_MAX
    assert len(set(found)) == len(words)
    assert np.abs(np.sort(found) - np.linspace(0, 1, len(words))).max() < 0.02
    assert hashed(pa.array(["ab", "a", "b", ""])[1:]).tolist() == hashed(pa.array(["a", "b", ""])).tolist()
