"""Starts Spark for an export, quiet except for errors; under spark-submit it uses the master given there."""

from __future__ import annotations

import os
from importlib.resources import files
from typing import Final

from pyspark.sql import SparkSession

from gantry_spark.session import defaults, session
from gantry_spark.spark import warehouse

APP: Final = "gantry export"
SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""Set by spark-submit for the program it runs, whose Java is already running."""
_FIXED_BY_THEN: Final = "spark.driver.memory"


def start(master: str) -> SparkSession:
    """Return a running session. Raises jvm.NoJava."""
    if SUBMITTED in os.environ:
        builder = SparkSession.builder.appName(APP)
        for key, value in {**defaults(""), **warehouse.settings()}.items():
            if key != _FIXED_BY_THEN:
                builder = builder.config(key, value)
        builder.getOrCreate()
    log = files("gantry_spark.spark").joinpath("log4j2.properties")
    settings = {
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{log}",
        "spark.log.level": "ERROR",
        **warehouse.settings(),
    }
    return session(APP, master=master, settings=settings)
