"""The interface of a table of any kind: its marks, its files, its commit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol
from urllib.parse import unquote

from gantry_spark.export.tables.part_files import PartFile

STATE: Final = "_gantry"
"""The state folder of an exported table; readers of all three kinds ignore names that begin with an underscore."""
_NAME: Final = re.compile(
    r"(?:^|.*/)dt=(?P<dt>[0-9-]+)/broker=(?P<broker>[^/]+)/part-.*-(?P<first>\d{20})-(?P<last>\d{20})\.parquet"
)


class Mark(NamedTuple):
    """The export position of a broker's log: the log, and the position of the next record."""

    log_id: str
    next: int


Marks = dict[str, Mark]
"""By broker."""


class LiveFile(NamedTuple):
    """A file that readers of the table see; its path is relative to the table's folder."""

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
    """Its files contain the columns dt and broker; otherwise folder names or the commit contain them."""
    is_read_by_folder: bool
    """Readers list the folder: a merged file and the ones it replaces must never be there together."""
    root: str
    """The place of its data below the folder: empty, or a path with a final slash."""

    def marks(self) -> Marks:
        """Return its marks."""
        ...

    def files(self) -> list[LiveFile]:
        """Return its exported files, in the order of brokers, days and positions."""
        ...

    def add(self, files: Sequence[PartFile], marks: Marks) -> None:
        """Add files that are already in place, and move the marks of these brokers: one commit."""
        ...

    def replace(self, merges: Sequence[Merge]) -> None:
        """Replace files: one commit. The new ones are in place, unless readers list the folder: then it moves them itself."""
        ...

    def recover(self) -> None:
        """Finish a `replace` that was killed."""
        ...


def live_file(path: str, rows: int, size: int) -> LiveFile | None:
    """Return an exported file by its path, which contains its partition and its positions; None for any other file."""
    found = _NAME.fullmatch(path)
    if found is None:
        return None
    first, last = int(found["first"]), int(found["last"])
    return LiveFile(path, found["dt"], unquote(found["broker"]), first, last, rows, size)


def in_order(files: Sequence[LiveFile]) -> list[LiveFile]:
    """Return files by broker, day and position."""
    return sorted(files, key=lambda file: (file.broker, file.dt, file.first))
