"""A Delta Lake table.

The commit that adds files contains, per broker and log, an application transaction whose version is the position of the next record:
the protocol's own place for a writer's progress.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, CommitProperties, RemoveAction, Transaction

from gantry_spark.export.failures import Failed
from gantry_spark.export.tables.columns import PARTITION_FIELDS, PARTITIONS
from gantry_spark.export.tables.durable import read_json, write_json
from gantry_spark.export.tables.part_files import PartFile
from gantry_spark.export.tables.table import STATE, LiveFile, Mark, Marks, Merge, in_order, live_file

LOGS: Final = f"{STATE}/logs.json"
"""The logs from which this table was ever exported, newest last: transactions can be queried by name, but not listed."""


class DeltaFolder:
    """Implements tables.Table."""

    with_partitions = False
    is_read_by_folder = False
    root = ""

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self._folder = folder
        self._schema = pa.schema([*schema, *PARTITION_FIELDS])
        self._logs = folder / LOGS
        if not DeltaTable.is_deltatable(str(folder)):
            DeltaTable.create(folder, schema=self._schema, partition_by=list(PARTITIONS))

    def marks(self) -> Marks:
        """Return its marks."""
        table = DeltaTable(self._folder)
        found: Marks = {}
        for broker, log_ids in (read_json(self._logs) or {}).items():
            for log_id in log_ids:
                version = table.transaction_version(_application(broker, log_id))
                if version is not None:
                    found[broker] = Mark(log_id, version)
        return found

    def files(self) -> list[LiveFile]:
        """Return its files."""
        actions = pa.table(DeltaTable(self._folder).get_add_actions(flatten=True)).to_pylist()
        found = [
            live_file(unquote(action["path"]), action["num_records"] or 0, action["size_bytes"])
            for action in actions
        ]
        return in_order([file for file in found if file is not None])

    def add(self, files: Sequence[PartFile], marks: Marks) -> None:
        """Add files and move marks."""
        logs: dict[str, list[str]] = read_json(self._logs) or {}
        fresh = {
            broker: [*(one for one in logs.get(broker, []) if one != mark.log_id), mark.log_id]
            for broker, mark in marks.items()
        }
        if {**logs, **fresh} != logs:
            write_json(self._logs, {**logs, **fresh})
        transactions = [
            Transaction(_application(broker, mark.log_id), mark.next, int(time.time() * 1000))
            for broker, mark in marks.items()
        ]
        self._commit([_added(file, is_change=True) for file in files], transactions)

    def replace(self, merges: Sequence[Merge]) -> None:
        """Replace files. Replaced ones stay for older versions of the table until a vacuum."""
        removed = [_removed(file) for merge in merges for file in merge.gone]
        self._commit([*removed, *(_added(merge.fresh, is_change=False) for merge in merges)], [])

    def recover(self) -> None:
        """Do nothing: commits are atomic."""

    def _commit(self, actions: list[Any], transactions: list[Transaction]) -> None:
        properties = CommitProperties(
            app_transactions=transactions, custom_metadata={"writer": "gantry export"}
        )
        try:
            DeltaTable(self._folder).create_write_transaction(
                actions, "append", self._schema, list(PARTITIONS), commit_properties=properties
            )
        except DeltaError as error:
            raise Failed(f"the Delta table {self._folder} rejected the commit: {error}") from error


def _application(broker: str, log_id: str) -> str:
    return f"gantry/{broker}/{log_id}"


def _added(file: PartFile, *, is_change: bool) -> AddAction:
    statistics = json.dumps(
        {
            "numRecords": file.rows,
            "minValues": {"physicalOffset": file.first},
            "maxValues": {"physicalOffset": file.last},
            "nullCount": {"physicalOffset": 0},
        }
    )
    partition = {"dt": file.dt, "broker": file.broker}
    return AddAction(file.path, file.bytes, partition, int(time.time() * 1000), is_change, statistics)


def _removed(file: LiveFile) -> RemoveAction:
    return RemoveAction(
        path=file.path, deletion_timestamp=int(time.time() * 1000), data_change=False,
        partition_values={"dt": file.dt, "broker": file.broker}, size=file.bytes,
    )  # fmt: skip
