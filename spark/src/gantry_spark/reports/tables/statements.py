"""Runs the SQL of `sql/*.sql` and records what ran with which values, for the appendix of a report."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Final

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

_FOLDER: Final = files("gantry_spark.reports.tables") / "sql"
# For tables of some thousand rows Spark spends more on code generation and on many tasks than on the work: a third of a report's CPU time.
_SMALL: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}


def text(name: str) -> str:
    """Return the SQL of a statement, with its comment first."""
    return (_FOLDER / f"{name}.sql").read_text(encoding="utf-8")


class Statements:
    """The statements of a report; not thread-safe, except `table`."""

    def __init__(
        self, spark: SparkSession, parameters: Mapping[str, int], earlier: Mapping[str, pa.Table]
    ) -> None:
        self.spark = spark
        self.parameters = dict(parameters)
        """Values of the `:names` in the SQL."""
        self.used: dict[str, str] = {}
        """Name to SQL of all that ran, in that order."""
        self._earlier = earlier
        self._usual = {setting: str(spark.conf.get(setting)) for setting in _SMALL}
        self._kept: dict[str, DataFrame] = {}
        spark.sql(text("kind_of"))
        self.used["kind_of"] = text("kind_of")

    def frame(self, name: str) -> DataFrame:
        """Return the result of a statement, not yet computed."""
        sql = self.used[name] = text(name)
        return self.spark.sql(
            sql, args={key: value for key, value in self.parameters.items() if f":{key}" in sql}
        )

    def view(self, name: str, *, keep: bool = False) -> None:
        """Make the result of a statement, with the results of earlier rounds, a view of its name; `keep`: computed once."""
        self.register(name, self.frame(name), keep=keep)

    def register(self, name: str, frame: DataFrame, *, keep: bool = False) -> None:
        """Make rows, with those of earlier rounds under that name, a view; replaces an older one of the name."""
        old = self._kept.pop(name, None)
        if old is not None:
            old.unpersist()
        if name in self._earlier:
            frame = self.spark.createDataFrame(self._earlier[name]).unionByName(frame)
        if keep:
            self._kept[name] = frame = frame.persist(StorageLevel.MEMORY_AND_DISK)
        frame.createOrReplaceTempView(name)

    def counted(self, name: str, rows: pa.Table) -> None:
        """Make counts of the log a view by its statement."""
        self._use(_SMALL)
        self.spark.createDataFrame(rows).createOrReplaceTempView("counted")
        self.view(name)

    def scan(self, name: str, frame: DataFrame | None = None) -> None:
        """Compute a view now, in a pass over the log with code generation. `frame` replaces the statement of that name."""
        self._use(self._usual)
        self.register(name, self.frame(name) if frame is None else frame, keep=True)
        self.spark.table(name).count()
        self._use(_SMALL)

    def _use(self, settings: Mapping[str, str]) -> None:
        for setting, value in settings.items():
            self.spark.conf.set(setting, value)

    def table(self, name: str) -> pa.Table:
        """Return the rows of a statement."""
        return self.frame(name).toArrow()

    def close(self) -> None:
        """Release cached data."""
        self._use(self._usual)
        for frame in self._kept.values():
            frame.unpersist()
        self._kept.clear()
