"""What a run needs of a table, whatever its kind: how far it is, which files it has, one commit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol
from urllib.parse import unquote

from gantry_spark.export.tables.part_files import PartFile

STATE: Final = "_gantry"
"""Folder of a table that is ours; readers of all three kinds pass over names that begin with an underscore."""
_NAME: Final = re.compile(
    r"(?:^|.*/)dt=(?P<dt>[0-9-]+)/broker=(?P<broker>[^/]+)/part-.*-(?P<first>\d{20})-(?P<last>\d{20})\.parquet"
)


class Mark(NamedTuple):
    """How far one broker's log is exported: the log, and the position of the next record."""

    log_id: str
    next: int


Marks = dict[str, Mark]
"""By broker."""


class LiveFile(NamedTuple):
    """A file that readers of the table see; its path is below the table's folder."""

    path: str
    dt: str
    broker: str
    first: int
    last: int
    rows: int
    bytes: int


class Merge(NamedTuple):
    """Files of one partition that one file replaces."""

    gone: tuple[LiveFile, ...]
    fresh: PartFile


class Table(Protocol):
    """A table in a folder. Each change is one commit: it happens as a whole or not at all."""

    with_partitions: bool
    """Its files hold the columns dt and broker; otherwise they stand in the names of folders, or in the commit."""
    is_read_by_folder: bool
    """Readers list the folder: a merged file and the ones it replaces must never lie there together."""
    root: str
    """Where its data lie below the folder: empty, or a path with a slash at its end."""

    def marks(self) -> Marks:
        """How far it is."""
        ...

    def files(self) -> list[LiveFile]:
        """Its files of ours, in the order of brokers, days and positions."""
        ...

    def add(self, files: Sequence[PartFile], marks: Marks) -> None:
        """Add files, which lie in place, and move the marks of these brokers: one commit."""
        ...

    def replace(self, merges: Sequence[Merge]) -> None:
        """Replace files: one commit. The fresh ones lie in place, but where readers list the folder: then it moves them itself."""
        ...

    def recover(self) -> None:
        """Finish what a killed `replace` left half done."""
        ...


def live_file(path: str, rows: int, size: int) -> LiveFile | None:
    """Return a file of ours by its path, which says its partition and its positions; None for one of somebody else."""
    told = _NAME.fullmatch(path)
    if told is None:
        return None
    first, last = int(told["first"]), int(told["last"])
    return LiveFile(path, told["dt"], unquote(told["broker"]), first, last, rows, size)


def in_order(files: Sequence[LiveFile]) -> list[LiveFile]:
    """Return files by broker, day and position."""
    return sorted(files, key=lambda file: (file.broker, file.dt, file.first))
