"""One change of a table's folder after the other, safe against a kill at any moment, and by one process at a time.

The order of a commit: note which files will come (`pending.json`), move them into place, make the table's own commit, drop the note.
A note that is found at the start is of a killed run: files of it that the table does not name were never committed and go.
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
    """Hold a table's folder: nobody else may export into it meanwhile. Raises Refused when somebody does."""
    path = folder / LOCK
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(descriptor), path.stat()):
                raise BlockingIOError
        except (BlockingIOError, FileNotFoundError):
            raise Refused(f"another export is at work in {folder}: wait for it, or end it") from None
        try:
            yield
        finally:
            if not (folder / IDENTITY).exists():
                path.unlink(missing_ok=True)  # it became no table: nothing of ours stays
    finally:
        os.close(descriptor)


def settle(folder: Path, table: Table) -> int:
    """Put right what a killed run left. Returns how many files went that were never committed."""
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
    """Add files that lie in staging, and move marks: readers see all of it or nothing."""
    placed = [_placed(table, file) for file in files]
    if placed and (there := {file.path for file in table.files()} & {file.path for file in placed}):
        raise Failed(f"{min(there)} is in {folder} already: the log does not go on where the table ends")
    _commit(folder, placed, lambda: table.add(placed, marks))
    shutil.rmtree(folder / STAGING, ignore_errors=True)


def replace(folder: Path, table: Table, merges: Sequence[Merge]) -> None:
    """Replace files by ones that lie in staging."""
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
