"""Starts Spark for Gantry's jobs: with the found Java, the settings that a Python source needs, and the shipped code.

Works with `local[n]`, `local-cluster[…]` and a cluster's master. The settings are defaults: `settings` overrides them.
"""

from __future__ import annotations

import atexit
import functools
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import Final

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from gantry_spark.spark import jvm, shipping
from gantry_spark.spark.data_source import GantrySource

NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})
DRIVER_MEMORY: Final = "2g"
ARROW_POOL: Final = "ARROW_DEFAULT_MEMORY_POOL"
POOL: Final = f"spark.executorEnv.{ARROW_POOL}"


def session(
    app: str,
    *,
    master: str = "local[*]",
    ui: bool = False,
    settings: Mapping[str, str] = NO_SETTINGS,
    java: str | None = None,
) -> SparkSession:
    """Return a running session that knows the source `gantry`; an existing one of this process is used unchanged.

    Sets JAVA_HOME, and PYSPARK_PYTHON if it is not set: Spark starts its processes by them. Raises jvm.NoJava with one line that says
    what to install.
    """
    running = SparkSession.getActiveSession()
    if running is None:
        context(app, master=master, ui=ui, settings=settings, java=java)
        builder = SparkSession.builder.appName(app).master(master)
        for key, value in {**defaults(master, ui=ui), **settings}.items():
            builder = builder.config(key, value)
        running = builder.getOrCreate()
    else:
        ship(running.sparkContext)
        running.dataSource.register(
            GantrySource
        )  # it may have searched for sources before our code was there
    return running


def context(
    app: str,
    *,
    master: str = "local[*]",
    ui: bool = False,
    settings: Mapping[str, str] = NO_SETTINGS,
    java: str | None = None,
) -> SparkContext:
    """Return the context for jobs, of which `session` with the same arguments makes a session: a job does not need SQL's half of a start.

    An existing one of this process is used unchanged. Sets and raises what `session` does.
    """
    os.environ["JAVA_HOME"] = _java_home(java)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf().setAppName(app).setMaster(master)
    for key, value in {**defaults(master, ui=ui), **settings}.items():
        conf.set(key, value)
    with ThreadPoolExecutor(1) as thread:
        thread.submit(_packed)  # while Java starts
        java_starts(conf)
        conf.setAll([*worker_pool({**dict(SparkConf().getAll()), **settings}, os.environ).items()])
        running = SparkContext.getOrCreate(conf)
    ship(running)
    return running


def defaults(master: str, *, ui: bool = False) -> dict[str, str]:
    """Return the default settings for a master. Each has a reason."""
    found = {
        # A Python source costs a socket per task: unix sockets avoid the wait for delayed acknowledgements of TCP.
        "spark.python.unix.domain.socket.enabled": "true",
        # A new worker costs more than a second.
        "spark.python.worker.reuse": "true",
        # A starting Python process has 15 s to report, else a stream ends; on a busy machine it may take longer.
        "spark.python.authenticate.socketTimeout": "300s",
        "spark.ui.enabled": str(ui).lower(),
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(2 * cores(master)),
        "spark.driver.memory": DRIVER_MEMORY,
    }
    if master.startswith("local"):
        found["spark.driver.host"] = found["spark.driver.bindAddress"] = "127.0.0.1"
    return found


def java_starts(conf: SparkConf | None = None) -> None:
    """Start Java if it does not run yet. From then on SparkConf() has the settings of the user's files and of spark-submit."""
    SparkContext._ensure_initialized(conf=conf)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - no other way to know before jobs run


def worker_pool(given: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the setting of Arrow's memory in workers: the user's environment, else the system's; nothing where `given` has one.

    Arrow's own pools keep freed memory: 250 MB of a worker instead of 220, and no faster.
    """
    return {} if POOL in given else {POOL: environment.get(ARROW_POOL, "system")}


def cores(master: str) -> int:
    """Return the number of concurrent tasks of a local master by its name; else the cores of this machine."""
    numbers = re.fullmatch(r"local(?:-cluster)?\[(\d+)(?:,\s*(\d+))?.*\]", master)
    if numbers is None:
        return 1 if master == "local" else os.cpu_count() or 1
    return max(
        1,
        int(numbers.group(1))
        * int(numbers.group(2) if master.startswith("local-") and numbers.group(2) else 1),
    )


def ship(running: SparkContext) -> None:
    """Ship the code to every Python process of a context, which then finds the source by its name. Harmless if done before."""
    running.addPyFile(str(_packed()))


@functools.cache
def _java_home(java: str | None) -> str:
    """Return the home of the chosen Java; checking one takes a third of a second."""
    return str(jvm.find(java).home)


@functools.cache
def _packed() -> Path:
    """Return the code, packed once per process.

    Spark puts the zip on this process's path, where packing again would find half of it; and a cluster refuses a file of the same name
    from another place.
    """
    folder = Path(tempfile.mkdtemp(prefix="gantry-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return shipping.pack(folder)
