"""Lets the tests of this package import what they share by name, and gives those with Spark one session for all."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

sys.path.append(str(Path(__file__).parent))
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """Return the one session of this run, with two cores. Mark what uses it `cluster`: it takes 10 to 20 s to start."""
    from gantry_spark.session import session

    folder = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder),
        "spark.driver.memory": "1g",
    }
    running = session("tests", master="local[2]", settings=settings)
    yield running
    running.stop()


def gantry(*words: str, timeout: float = 300) -> str:
    """Run one launcher command as a user would, and return what it printed."""
    ran = subprocess.run(
        [sys.executable, str(ROOT / "gantry"), *words],
        capture_output=True, text=True, timeout=timeout, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture(scope="session")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """One running system with two stores for all tests that only use it; `data` is its directory. Give topics names of your own."""
    data = tmp_path_factory.mktemp("system")
    options = (
        "--free-ports",
        "--detach",
        "--json",
        "--brokers",
        "2",
        "--set",
        "broker-store.send_wait_ms_max=60000",
    )
    try:
        yield {**json.loads(gantry("up", "--data", str(data), *options)), "data": str(data)}
    finally:
        gantry("down", "--data", str(data))
