"""A table of plain Parquet files in `dt=…/broker=…`, with a manifest that lists its files and its marks.

The manifest, `_gantry/manifest.json`, is replaced atomically, last: a killed run leaves at most files that it does not name, and
the next run deletes those first. Readers that want exactly the committed rows read the files it names.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from gantry_spark.export.tables.durable import move, read_json, write_json
from gantry_spark.export.tables.part_files import PartFile
from gantry_spark.export.tables.table import STATE, LiveFile, Mark, Marks, Merge, in_order

MANIFEST: Final = f"{STATE}/manifest.json"


class ParquetFolder:
    """Implements tables.Table."""

    with_partitions = False
    is_read_by_folder = True
    root = ""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / MANIFEST

    def marks(self) -> Marks:
        """Return its marks."""
        return {broker: Mark(*mark) for broker, mark in self._manifest()["marks"].items()}

    def files(self) -> list[LiveFile]:
        """Return its files."""
        return in_order([LiveFile(*file) for file in self._manifest()["files"]])

    def add(self, files: Sequence[PartFile], marks: Marks) -> None:
        """Add files and move marks."""
        manifest = self._manifest()
        self._write(
            [*manifest["files"], *(_live(file) for file in files)],
            {**manifest["marks"], **marks},
            manifest["version"],
        )

    def replace(self, merges: Sequence[Merge]) -> None:
        """Replace files: the manifest first, then the folder, which `recover` can repeat."""
        manifest = self._manifest()
        gone = {file.path for merge in merges for file in merge.gone}
        kept = [file for file in manifest["files"] if file[0] not in gone]
        fresh = [merge.fresh for merge in merges]
        self._write(
            [*kept, *(_live(file) for file in fresh)], manifest["marks"], manifest["version"],
            gone=sorted(gone), moves=[(file.staged, file.path) for file in fresh],
        )  # fmt: skip
        self.recover()

    def recover(self) -> None:
        """Apply the last manifest to the folder: delete and move files. Harmless if already done."""
        manifest = self._manifest()
        for path in manifest["gone"]:
            (self._folder / path).unlink(missing_ok=True)
        move(self._folder, manifest["moves"])

    def _manifest(self) -> dict[str, Any]:
        return read_json(self._path) or {"version": 0, "marks": {}, "files": [], "gone": [], "moves": []}

    def _write(
        self,
        files: Sequence[Any],
        marks: Marks,
        version: int,
        *,
        gone: Sequence[str] = (),
        moves: Sequence[Any] = (),
    ) -> None:
        write_json(
            self._path,
            {
                "version": version + 1, "committedMs": int(time.time() * 1000), "marks": marks,
                "gone": gone, "moves": moves, "files": files,
            },
        )  # fmt: skip


def _live(file: PartFile) -> LiveFile:
    return LiveFile(file.path, file.dt, file.broker, file.first, file.last, file.rows, file.bytes)
