"""Opens a table of any kind. Loads only the library of that kind."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from gantry_spark.export.tables.table import Table


def open_table(kind: str, folder: Path, schema: pa.Schema) -> Table:
    """Open a table of this kind, creating it if needed."""
    if kind == "delta":
        from gantry_spark.export.tables.delta import DeltaFolder

        return DeltaFolder(folder, schema)
    if kind == "iceberg":
        from gantry_spark.export.tables.iceberg import IcebergFolder

        return IcebergFolder(folder, schema)
    from gantry_spark.export.tables.parquet import ParquetFolder

    return ParquetFolder(folder)
