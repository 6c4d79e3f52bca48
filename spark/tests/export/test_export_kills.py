"""An export in its own process, killed with -9 while it runs: no row is lost or duplicated."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from export_made import read_back
from logs_made import LogMade

pytestmark = [pytest.mark.cluster, pytest.mark.crash]
WAIT_SECONDS_MAX = 800
KILLS = 20


class Exporter:
    """Starts `python -m gantry_spark.export` on a growing log, and stops its processes."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.log, self.out, self.kind = LogMade(), folder / "orders", kind
        self._store = folder / "broker-a"
        self._started: list[subprocess.Popen[bytes]] = []

    def grow(self, count: int) -> None:
        for number in range(count):
            self.log.add("orders", b"%d" % number, queue_id=number % 4)
        self.log.write(self._store / "commitlog")

    def start(self) -> subprocess.Popen[bytes]:
        words = ["--topic", "orders", "--to", self.kind, "--out", str(self.out), "--store", str(self._store)]
        command = [sys.executable, "-m", "gantry_spark.export", *words, "--master", "local[2]"]
        process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)
        self._started.append(process)
        return process

    def finish(self) -> None:
        assert self.start().wait(WAIT_SECONDS_MAX) == 0

    def close(self) -> None:
        """Stop what is left of Spark: a Java process whose Python has exited ends by itself shortly after."""
        for process in self._started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(WAIT_SECONDS_MAX)


@pytest.fixture
def exporter(quick_java: None, tmp_path: Path) -> Iterator[Callable[[str], Exporter]]:
    made: list[Exporter] = []

    def make(kind: str) -> Exporter:
        made.append(Exporter(tmp_path / kind, kind))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.timeout(900)
def test_the_next_run_repairs_one_that_was_killed_while_writing(
    exporter: Callable[[str], Exporter],
) -> None:
    one = exporter("parquet")
    one.grow(20_000)
    process = one.start()
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not list(one.out.glob("_gantry/staging/*/*")):  # a task is writing
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    process.wait()
    one.grow(100)
    one.finish()
    assert read_back(one.out, "parquet") == one.log.positions


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_runs_killed_at_any_moment_leave_every_row_once(exporter: Callable[[str], Exporter]) -> None:
    chance = random.Random(20261122)
    for kind in ("parquet", "delta", "iceberg"):
        one = exporter(kind)
        one.grow(5000)
        began = time.monotonic()
        one.finish()
        whole = time.monotonic() - began
        for _ in range(KILLS):
            one.grow(chance.randrange(1, 5000))
            process = one.start()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(chance.uniform(0.3, 1.1) * whole)
            process.kill()
            process.wait()
            seen = read_back(one.out, kind)
            assert len(seen) == len(set(seen))
        one.finish()
        assert read_back(one.out, kind) == one.log.positions
