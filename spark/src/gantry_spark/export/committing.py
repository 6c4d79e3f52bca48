"""Changes a table's folder, one commit at a time, safe against a kill at any moment, and by one process at a time.

The order of a commit: note the new files (`pending.json`), move them into place, make the table's own commit, delete the note.
A note found at the start is from a killed run: its files that the table does not name were never committed and are deleted.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Final

from gantry_spark.export.failures import Failed, Refused
from gantry_spark.export.places import IDENTITY
from gantry_spark.export.tables.durable import move, read_json, write_json
from gantry_spark.export.tables.part_files import PartFile
from gantry_spark.export.tables.table import STATE, Marks, Merge, Table

PENDING: Final = f"{STATE}/pending.json"
STAGING: Final = f"{STATE}/staging"
LOCK: Final = f"{STATE}/lock"


@contextlib.contextmanager
def locked(folder: Path) -> Generator[None]:
    """Lock a table's folder: no other export may use it meanwhile. Raises Refused if another does."""
    path = folder / LOCK
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(descriptor), path.stat()):
                raise BlockingIOError
        except (BlockingIOError, FileNotFoundError):
            raise Refused(f"another export is running in {folder}: wait for it, or stop it") from None
        try:
            yield
        finally:
            if not (folder / IDENTITY).exists():
                path.unlink(missing_ok=True)  # no table was created: leave nothing behind
    finally:
        os.close(descriptor)


def settle(folder: Path, table: Table) -> int:
    """Repair the remains of a killed run. Returns the number of deleted files that were never committed."""
    table.recover()
    left = [path for path in read_json(folder / PENDING) or () if (folder / path).exists()]
    if left:
        named = {file.path for file in table.files()}
        left = [path for path in left if path not in named]
        for path in left:
            (folder / path).unlink()
    (folder / PENDING).unlink(missing_ok=True)
    shutil.rmtree(folder / STAGING, ignore_errors=True)
    return len(left)


def add(folder: Path, table: Table, files: Sequence[PartFile], marks: Marks) -> None:
    """Add staged files, and move marks: readers see all of it or nothing."""
    placed = [_placed(table, file) for file in files]
    if placed and (there := {file.path for file in table.files()} & {file.path for file in placed}):
        raise Failed(f"{min(there)} is already in {folder}: the log does not continue where the table ends")
    _commit(folder, placed, lambda: table.add(placed, marks))
    shutil.rmtree(folder / STAGING, ignore_errors=True)


def replace(folder: Path, table: Table, merges: Sequence[Merge]) -> None:
    """Replace files by staged ones."""
    placed = [merge._replace(fresh=_placed(table, merge.fresh)) for merge in merges]
    if table.is_read_by_folder:
        table.replace(placed)
    else:
        _commit(folder, [merge.fresh for merge in placed], lambda: table.replace(placed))
    shutil.rmtree(folder / STAGING, ignore_errors=True)


def _commit(folder: Path, files: Sequence[PartFile], commit: Callable[[], None]) -> None:
    if files:
        write_json(folder / PENDING, [file.path for file in files])
        move(folder, [(file.staged, file.path) for file in files])
    commit()
    (folder / PENDING).unlink(missing_ok=True)


def _placed(table: Table, file: PartFile) -> PartFile:
    return file._replace(path=f"{table.root}{file.path}")
