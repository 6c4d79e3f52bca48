"""An Iceberg table `gantry.messages` with a SQLite catalog in its own folder.

The commit that adds files sets the marks as a property of the table and of the snapshot: the first is read again, the second shows
the marks of each snapshot.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.table import Table as Iceberg

from gantry_spark.export.failures import Failed
from gantry_spark.export.tables.columns import PARTITION_FIELDS, PARTITIONS
from gantry_spark.export.tables.part_files import PartFile
from gantry_spark.export.tables.table import LiveFile, Mark, Marks, Merge, in_order, live_file

CATALOG: Final = "catalog.db"
IDENTIFIER: Final = "gantry.messages"
MARKS: Final = "gantry.marks"


class IcebergFolder:
    """Implements tables.Table."""

    with_partitions = True
    is_read_by_folder = False
    root = "data/"

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self._uri = f"file://{folder}"
        self._catalog = SqlCatalog("gantry", uri=f"sqlite:///{folder / CATALOG}", warehouse=self._uri)
        self._catalog.create_namespace_if_not_exists("gantry")
        if not self._catalog.table_exists(IDENTIFIER):
            self._create(pa.schema([*schema, *PARTITION_FIELDS]))

    def marks(self) -> Marks:
        """Return its marks."""
        marks = json.loads(self._load().properties.get(MARKS, "{}"))
        return {broker: Mark(*mark) for broker, mark in marks.items()}

    def files(self) -> list[LiveFile]:
        """Return its files."""
        found = [
            live_file(self._below(task.file.file_path), task.file.record_count, task.file.file_size_in_bytes)
            for task in self._load().scan().plan_files()
        ]
        return in_order([file for file in found if file is not None])

    def add(self, files: Sequence[PartFile], marks: Marks) -> None:
        """Add files and move marks."""
        noted = {MARKS: json.dumps({**self.marks(), **marks}, sort_keys=True)}
        try:
            with self._load().transaction() as transaction:
                transaction.set_properties(noted)
                if files:
                    transaction.add_files(
                        [f"{self._uri}/{file.path}" for file in files], snapshot_properties=noted
                    )
        except CommitFailedException as error:
            raise self._refused(error) from error

    def replace(self, merges: Sequence[Merge]) -> None:
        """Replace files. Replaced ones stay for older snapshots of the table until they expire."""
        table = self._load()
        gone = {file.path for merge in merges for file in merge.gone}
        held = [task.file for task in table.scan().plan_files()]
        try:
            with table.transaction() as transaction, transaction.update_snapshot().overwrite() as snapshot:
                for file in held:
                    if self._below(file.file_path) in gone:
                        snapshot.delete_data_file(file)
                for merge in merges:
                    path = f"{self._uri}/{merge.fresh.path}"
                    snapshot.append_data_file(
                        parquet_file_to_data_file(table.io, transaction.table_metadata, path)
                    )
        except CommitFailedException as error:
            raise self._refused(error) from error

    def recover(self) -> None:
        """Do nothing: commits are atomic."""

    def _create(self, schema: pa.Schema) -> None:
        """Create the table with its partitions in one step, so that a kill leaves no table without them."""
        making = self._catalog.create_table_transaction(IDENTIFIER, schema, location=self._uri)
        with making as transaction, transaction.update_spec() as spec:
            for name in PARTITIONS:
                spec.add_identity(name)

    def _load(self) -> Iceberg:
        return self._catalog.load_table(IDENTIFIER)

    def _below(self, path: str) -> str:
        return path.removeprefix(f"{self._uri}/")

    def _refused(self, error: Any) -> Failed:
        return Failed(f"the Iceberg table in {self._uri} rejected the commit: {error}")
