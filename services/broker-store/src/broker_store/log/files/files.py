# ruff: noqa: D102 - the Protocols say what the operations promise
"""The few file operations the store needs, as Protocols.

`real_files` implements them on the disk of this machine, `simulated_files` on a disk that can crash.
"""

import errno
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

Data: TypeAlias = bytes | bytearray | memoryview

SPACE_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Errors that mean no space and nothing worse."""


class File(Protocol):
    """One open file, read and written at positions. Every failure is an OSError."""

    path: str

    def pwritev(self, buffers: Sequence[Data], position: int) -> None:
        """Write all buffers in order, or raise with an unknown part of them written."""
        ...

    def pwrite(self, data: Data, position: int) -> None:
        """Write all of data, or raise with an unknown part of it written."""
        ...

    def pread(self, size: int, position: int) -> bytes:
        """Return up to size bytes. Fewer only at the end of the file."""
        ...

    def pread_nowait(self, size: int, position: int) -> bytes | None:
        """Return exactly size bytes if all are in the page cache, else None: then read in a thread."""
        ...

    def sync(self) -> None:
        """Return once everything written so far is durable. After a failure its state is unknown for ever."""
        ...

    def zero(self, start: int, size: int) -> None:
        """Write zeros over a range, so that its blocks are allocated."""
        ...

    def truncate(self, size: int) -> None:
        """Cut or extend the file; the extension reads as zeros and holds no blocks."""
        ...

    def next_data(self, position: int) -> int | None:
        """Return the first position at or after this one that may hold other bytes than zeros, None if there is none."""
        ...

    def drop_cached(self, start: int, size: int) -> None:
        """Request that the next read of the range comes from the device. Only synced bytes can be dropped, and bytes before it may be."""
        ...

    def size(self) -> int:
        """Size of the file in bytes."""
        ...

    def is_at(self, path: str) -> bool:
        """Whether this path still names this file: it was not removed, moved or replaced."""
        ...

    def close(self) -> None:
        """Release the descriptor without a sync. Also done when the last reference is dropped."""
        ...


class Files(Protocol):
    """A directory tree. `sync_dir` of a directory makes its names durable."""

    def open(self, path: str, create_bytes: int | None = None) -> File:
        """Open for reading and writing. With create_bytes, create it or extend it to that size if needed."""
        ...

    def exists(self, path: str) -> bool: ...
    def size(self, path: str) -> int: ...
    def modified_ms(self, path: str) -> int: ...
    def listdir(self, path: str) -> list[str]:
        """Return the sorted names in the directory, none if it is missing."""
        ...

    def make_dirs(self, path: str) -> None:
        """Make the directory and its parents. Each entry is durable after `sync_dir` of its parent."""
        ...

    def rename(self, path: str, new_path: str) -> None: ...
    def remove(self, path: str) -> None:
        """Remove a file. A missing one is no error."""
        ...

    def remove_dir(self, path: str) -> None:
        """Remove a directory with all its content. A missing one is no error."""
        ...

    def link(self, path: str, new_path: str) -> None: ...
    def sync_dir(self, path: str) -> None: ...
    def sync_all(self, path: str) -> None:
        """Make everything written to the file system of this path durable: cheaper than many files one by one."""
        ...

    def read_bytes(self, path: str) -> bytes | None:
        """Return the whole content, None if the file is missing."""
        ...

    def replace_atomically(self, path: str, content: bytes) -> None:
        """Replace the content. After a crash the file holds the old or the new content in full. Durable on return."""
        ...

    def free_bytes(self, path: str) -> int: ...
    def total_bytes(self, path: str) -> int:
        """Return the used bytes, and those this process may still use, without blocks reserved for others (as df)."""
        ...


def make_durable_dirs(files: Files, path: str) -> None:
    """Make a directory whose entry, and those of its new parents, survive a power cut."""
    missing = [parent for parent in (Path(path), *Path(path).parents) if not files.exists(str(parent))]
    files.make_dirs(path)
    for directory in missing:
        files.sync_dir(str(directory.parent))
