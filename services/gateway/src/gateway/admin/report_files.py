"""A folder of reports, read-only: the list of reports, and the bytes of one file. Never writes, follows a link or runs Spark.

A report is a folder in it that contains `report.html` (docs/reports.md). Every path component is opened relative to its parent
and must not be a link, so no path leads out of the folder.
"""

import contextlib
import errno
import os
import re
import stat
from collections.abc import Generator
from pathlib import PurePosixPath
from typing import Final, NamedTuple

PAGE: Final = "report.html"
INDEX: Final = "index.html"
NAME_PATTERN: Final = r"[A-Za-z0-9_][A-Za-z0-9._=+@-]{0,199}"
PATH_PATTERN: Final = rf"{NAME_PATTERN}(/{NAME_PATTERN}){{0,3}}"
FILE_BYTES_MAX: Final = 64 * 1024 * 1024
"""A file is read into memory; report tables are aggregates, far smaller."""
REPORTS_MAX: Final = 1000
FILES_MAX: Final = 1000

MEDIA_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
    ".parquet": "application/vnd.apache.parquet",
    ".csv": "text/csv; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".sql": "text/plain; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
}
"""The media types of served files; other files are not served."""

_NAME = re.compile(NAME_PATTERN)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_NO_FILE = {errno.ELOOP, errno.ENXIO}
"""Errors of opening a link or a socket."""


class FileTooLarge(Exception):
    """A file has more than FILE_BYTES_MAX bytes."""


class ReportFile(NamedTuple):
    """One file of a report: its path in the report and its bytes."""

    path: str
    size: int


class Report(NamedTuple):
    """One report: its name, when its page was written (seconds since 1970), its files."""

    name: str
    written: float
    files: list[ReportFile]


def reports(folder: str) -> list[Report]:
    """Return the reports of a folder, newest first, at most REPORTS_MAX. Raises OSError if the folder cannot be read."""
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if _NAME.fullmatch(entry.name)]
    found = [report for name in names if (report := _report(folder, name)) is not None]
    return sorted(found, key=lambda report: report.written, reverse=True)[:REPORTS_MAX]


def read(folder: str, path: str) -> bytes | None:
    """Return the bytes of a file at a path below the folder; None if no such file is served. Raises FileTooLarge, OSError."""
    steps = path.split("/")
    if not all(map(_NAME.fullmatch, steps)) or media_type(path) is None:
        return None
    with _opened(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as root:
        try:
            return _read(root, steps)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return None
        except OSError as error:
            if error.errno in _NO_FILE:
                return None
            raise


def media_type(path: str) -> str | None:
    """Return the media type of a file by its name; None if it is not served."""
    return MEDIA_TYPES.get(PurePosixPath(path).suffix.lower())


def _read(root: int, steps: list[str]) -> bytes | None:
    *folders, name = steps
    with contextlib.ExitStack() as open_ones:
        at = root
        for step in folders:
            at = open_ones.enter_context(_opened(os.open(step, _FOLDER, dir_fd=at)))
        file = open_ones.enter_context(_opened(os.open(name, _FILE, dir_fd=at)))
        what = os.fstat(file)
        if not stat.S_ISREG(what.st_mode):
            return None
        if what.st_size > FILE_BYTES_MAX:
            raise FileTooLarge
        with os.fdopen(os.dup(file), "rb") as readable:
            return readable.read(FILE_BYTES_MAX)


def _report(folder: str, name: str) -> Report | None:
    """Return a report; None for a folder that is not one, or that was removed meanwhile."""
    path = f"{folder}/{name}"
    try:
        page = os.lstat(f"{path}/{PAGE}")
        if stat.S_ISLNK(os.lstat(path).st_mode) or not stat.S_ISREG(page.st_mode):
            return None
        return Report(name, page.st_mtime, sorted(_files(path)))
    except OSError:
        return None


def _files(path: str) -> list[ReportFile]:
    """Return the files of a report that are served."""
    found: list[ReportFile] = []
    for at, folders, names in os.walk(path):
        folders[:] = [name for name in folders if _NAME.fullmatch(name)]
        inside = os.path.relpath(at, path)
        for name in names:
            file = name if inside == "." else f"{inside}/{name}"
            what = os.lstat(f"{path}/{file}")
            if stat.S_ISREG(what.st_mode) and re.fullmatch(PATH_PATTERN, file) and media_type(file):
                found.append(ReportFile(file, what.st_size))
        if len(found) > FILES_MAX:
            break
    return found[:FILES_MAX]


@contextlib.contextmanager
def _opened(descriptor: int) -> Generator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)
