"""A running store keeps data that retention would delete while a job reads it."""

from pathlib import Path

import pytest
from http_calls import call, send
from systems_run import running_system

from gantry_spark.source import options
from gantry_spark.source.batch import BatchReader
from gantry_spark.store import snapshot

MEBI = 1 << 20


@pytest.mark.cluster
def test_a_segment_deleted_between_plan_and_read_is_still_read(tmp_path):
    sizes = (
        "--set",
        f"broker-store.segment_bytes={4 * MEBI}",
        "--set",
        f"broker-store.message_bytes_max={MEBI}",
    )
    with running_system(tmp_path / "data", *sizes) as system:
        call(system["http"], "PUT", "/v1/topics/kept", {})
        for _ in range(12):
            send(system["http"], "kept", ["x" * 10_000] * 100)
        reader = BatchReader(
            options.parse({"path": system["data"], "topic": "kept", "minPartitions": "5"}),
            ("queueOffset", "brokerName"),
        )
        pieces = reader.partitions()
        store = Path(system["brokers"][0]["store"])
        for segment in sorted((store / "commitlog").iterdir())[:2]:
            segment.unlink()  # as retention does: it neither truncates nor reuses files
        assert sum(batch.num_rows for piece in pieces for batch in reader.read(piece)) == 1200
        (kept,) = (store / "gantry" / "snapshots").iterdir()
        taken = snapshot.load(str(kept / "manifest.json"))
        assert (
            sum(high for (topic, _), (_, high) in taken.stores[0].queues.items() if topic == "kept") == 1200
        )
