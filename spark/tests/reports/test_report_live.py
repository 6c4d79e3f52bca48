"""Reports of a system under load: their counts equal those of the stores."""

from __future__ import annotations

import re
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from http_calls import call, load

from gantry_spark.reports.facts import Engine, Span
from gantry_spark.reports.progress import Progress
from gantry_spark.reports.tables import delay_levels
from gantry_spark.store import snapshot
from gantry_spark.store.snapshot import Snapshot

pytestmark = pytest.mark.cluster


def stored(system: dict[str, Any], topic: str) -> int:
    """Return the stores' own counters of the topic."""
    found = 0
    for broker in system["brokers"]:
        with urllib.request.urlopen(f"{broker['http']}/metrics", timeout=60) as answer:
            values = re.findall(
                rf'^gantry_store_put_messages_total{{topic="{topic}"}} (\S+)',
                answer.read().decode(),
                re.MULTILINE,
            )
        found += sum(int(float(value)) for value in values)
    return found


def held(taken: Snapshot) -> dict[str, int]:
    """Return the number of messages in the queues of a snapshot, by topic."""
    found: dict[str, int] = {}
    for view in taken.stores:
        for (topic, _), (low, high) in view.queues.items():
            if high > low:
                found[topic] = found.get(topic, 0) + high - low
    return found


def counted(report: dict[str, Any]) -> dict[str, int]:
    rows = [*report["tables"]["topics"], *report["tables"]["system_topics"]]
    return {row["topic"]: row["messages"] for row in rows}


@pytest.mark.timeout(900)
def test_reports_under_load_count_what_stores_and_queues_count(spark: Any, system: dict[str, Any]) -> None:
    from gantry_spark.reports.rounds import Rounds

    topic = f"reported-live-{time.monotonic_ns()}"  # a retry of the test starts at zero
    call(system["http"], "PUT", f"/v1/topics/{topic}", {})
    snapshots: list[Snapshot] = []

    def take() -> Snapshot:
        snapshots.append(snapshot.take([system["data"]]))
        return snapshots[-1]

    asked: list[Any] = []

    def session() -> Any:
        asked.append(spark)
        return spark

    rounds = Rounds(
        Engine(lambda: spark.sparkContext, session), take, Span(), delay_levels.DEFAULT, keep=True
    )
    with load(system["http"], topic, pause=0.02) as sent:
        until = time.monotonic() + 120
        while not sent[0]:
            assert time.monotonic() < until, "nothing was sent"
            time.sleep(0.05)
        before = sent[0]
        first = rounds.make(Progress(9)).report
        after = stored(system, topic)
    second = rounds.make(Progress(9)).report
    assert len(asked) == 1, "Spark is started once for all rounds"
    for report, taken in zip((first, second), snapshots, strict=True):
        assert all(view.snapshot_id for view in taken.stores)
        assert report["check"]["state"] == "equal", report["check"]["words"]
        assert counted(report) == held(taken)
        assert not report["notes"]
    assert before <= counted(first)[topic] <= after
    assert counted(second)[topic] == stored(system, topic) == sent[0]
    taken_ids = {view.snapshot_id for taken in snapshots for view in taken.stores}
    for broker in system["brokers"]:
        kept = {path.name for path in Path(broker["store"], "gantry", "snapshots").iterdir()}
        assert not kept & taken_ids
