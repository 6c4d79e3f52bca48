"""The data source `gantry`: the class behind `format("gantry")`. Delegates to readers and writers."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from gantry_spark.bad_option import BadOption
from gantry_spark.decode.schema import ddl
from gantry_spark.sink import options as sink_options
from gantry_spark.sink.writers import BatchWriter, StreamWriter
from gantry_spark.source import options
from gantry_spark.source.batch import BatchReader, PushdownReader, names_of
from gantry_spark.source.stream import StreamReader


class GantrySource(DataSource):
    """`gantry`: the messages in the logs of stores."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "gantry"

    def schema(self) -> str:
        """Return the columns selected by the option columns."""
        return ddl(options.parse(self.options).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch."""
        found = options.parse(self.options)
        kind = PushdownReader if found.pushdown else BatchReader
        return kind(found, names_of(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader of a stream."""
        return StreamReader(options.parse(self.options), names_of(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a batch."""
        if overwrite:
            raise BadOption('a topic cannot be overwritten: write with mode("append")')
        return BatchWriter(sink_options.parse(self.options, schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Return the writer of a stream."""
        if overwrite:
            raise BadOption('a topic cannot be overwritten: use the output mode "append"')
        return StreamWriter(sink_options.parse(self.options, schema))
