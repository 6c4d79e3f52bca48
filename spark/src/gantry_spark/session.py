"""Starts Spark for our jobs: the Java found, the settings that a source written in Python needs, our code shipped.

Works with `local[n]`, `local-cluster[…]` and a cluster's master alike. Ours are defaults: `settings` wins over them.
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
from pathlib import Path
from types import MappingProxyType
from typing import Final

from pyspark.sql import SparkSession

from gantry_spark import jvm, shipping
from gantry_spark.source import GantrySource

NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})
DRIVER_MEMORY: Final = "2g"
ARROW_POOL: Final = "ARROW_DEFAULT_MEMORY_POOL"


def session(
    app: str,
    *,
    master: str = "local[*]",
    ui: bool = False,
    settings: Mapping[str, str] = NO_SETTINGS,
    java: str | None = None,
) -> SparkSession:
    """Return a running session that knows the source `gantry`; one that runs in this process already is used as it is.

    Sets JAVA_HOME, and PYSPARK_PYTHON where it is not set: Spark starts its processes by them. Raises jvm.NoJava with one line that says
    what to install.
    """
    running = SparkSession.getActiveSession()
    if running is None:
        os.environ["JAVA_HOME"] = str(jvm.find(java).home)
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        # Arrow's own pools keep what was freed: 250 MB of a worker instead of 220, and no faster.
        os.environ.setdefault(ARROW_POOL, "system")
        builder = SparkSession.builder.appName(app).master(master)
        for key, value in {**defaults(master, ui=ui), **settings}.items():
            builder = builder.config(key, value)
        running = builder.getOrCreate()
        ship(running)
    else:
        ship(running)
        running.dataSource.register(GantrySource)  # it may have looked for sources before our code was there
    return running


def defaults(master: str, *, ui: bool = False) -> dict[str, str]:
    """Return our settings for a master. Each is here for a reason."""
    found = {
        # A source in Python costs a socket a task: unix sockets save the wait for delayed acknowledgements of TCP.
        "spark.python.unix.domain.socket.enabled": "true",
        # A new worker costs more than a second.
        "spark.python.worker.reuse": "true",
        # A process of Python that starts has 15 s to say hello, else a stream ends; on a busy machine it may take longer.
        "spark.python.authenticate.socketTimeout": "300s",
        "spark.ui.enabled": str(ui).lower(),
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(2 * cores(master)),
        "spark.driver.memory": DRIVER_MEMORY,
        f"spark.executorEnv.{ARROW_POOL}": "system",
    }
    if master.startswith("local"):
        found["spark.driver.host"] = found["spark.driver.bindAddress"] = "127.0.0.1"
    return found


def cores(master: str) -> int:
    """Return how many tasks run at once under a local master, as far as its name tells; else those of this machine."""
    numbers = re.fullmatch(r"local(?:-cluster)?\[(\d+)(?:,\s*(\d+))?.*\]", master)
    if numbers is None:
        return 1 if master == "local" else os.cpu_count() or 1
    return max(
        1,
        int(numbers.group(1))
        * int(numbers.group(2) if master.startswith("local-") and numbers.group(2) else 1),
    )


def ship(spark: SparkSession) -> None:
    """Give our code to every Python process of a session, which then finds the source by its name. Harmless when done before."""
    spark.sparkContext.addPyFile(str(_packed()))


@functools.cache
def _packed() -> Path:
    """Return our code, packed once a process.

    Spark puts the zip on this process's path, where packing anew would find half of it; and a cluster refuses a file of the same name
    from another place.
    """
    folder = Path(tempfile.mkdtemp(prefix="gantry-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return shipping.pack(folder)
