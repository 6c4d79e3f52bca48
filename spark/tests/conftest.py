"""Makes the shared modules of these tests importable by name, and gives all tests with Spark one session."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

sys.path.append(str(Path(__file__).parent))


@pytest.fixture(scope="session")
def spark(quick_java: None, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
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


@pytest.fixture(scope="session")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Return one running system with two stores for all tests that only use it. Use your own topic names."""
    from systems_run import running_system

    with running_system(tmp_path_factory.mktemp("system"), "--brokers", "2") as running:
        yield running
