"""A stream whose processes are killed repeatedly: no row of its output is missing or duplicated."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import stream_program
from http_calls import call, load

from gantry_spark.store import snapshot

BATCH_SECONDS_MAX = 800
"""A session takes half a minute to start on a slow machine, and minutes on one that is busy with other work."""


def batches(folder):
    with contextlib.suppress(FileNotFoundError):
        return sum(1 for path in (folder / "checkpoint/commits").iterdir() if path.name.isdecimal())
    return 0


def run_and_kill(data, topic, folder, chance):
    """Start the program, wait for its first batch, and kill it at a random time in the next ones."""
    done = batches(folder)
    command = [
        sys.executable,
        str(Path(stream_program.__file__)),
        data,
        topic,
        str(folder),
        f"spark.local.dir={folder}",
    ]
    with (
        (folder / "program.log").open("ab") as log,
        subprocess.Popen(
            command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
        ) as program,
    ):
        try:
            until = time.monotonic() + BATCH_SECONDS_MAX
            while batches(folder) == done:
                assert program.poll() is None, (folder / "program.log").read_text()[-3000:]
                assert time.monotonic() < until, "no batch was done"
                time.sleep(0.02)
            time.sleep(chance.random() * 2)
        finally:
            os.killpg(program.pid, signal.SIGKILL)


def check(spark, system, folder, kills, seed):
    chance = random.Random(seed)
    topic = f"killed-{kills}"
    call(system["http"], "PUT", f"/v1/topics/{topic}", {})
    with load(system["http"], topic, pause=0.5):
        for _ in range(kills):
            run_and_kill(system["data"], topic, folder, chance)
    stream = stream_program.writer(spark, system["data"], topic, str(folder), "8m")
    survivor = stream.trigger(availableNow=True).start()
    survivor.awaitTermination()
    written = spark.read.parquet(str(folder / "rows"))
    taken = snapshot.take([system["data"]])
    taken.close()
    expected = sum(
        high for view in taken.stores for (name, _), (_, high) in view.queues.items() if name == topic
    )
    assert expected > 0
    assert written.count() == expected
    assert written.select("brokerName", "queueId", "queueOffset").distinct().count() == expected
    assert batches(folder) > kills


@pytest.mark.cluster
@pytest.mark.crash
@pytest.mark.timeout(900)
def test_a_stream_that_is_killed_misses_no_row_and_repeats_none(spark, system, tmp_path):
    check(spark, system, tmp_path, 1, seed=2)


@pytest.mark.soak
@pytest.mark.cluster
@pytest.mark.timeout(7200)
def test_a_stream_killed_twenty_times_misses_no_row_and_repeats_none(spark, system, tmp_path):
    check(spark, system, tmp_path, 20, seed=20)
