"""Reads a segment in blocks: into one reused buffer, with the rest of the last block in front.

A local file is read by `pread`: faster than a mapping when its pages are not in memory, and a truncated file cannot kill the
process. pyarrow's file systems open anything else. This module does not interpret the bytes.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol

from pyarrow import fs

from gantry_spark.decode.boundaries import SLACK_BYTES, Content
from gantry_spark.decode.damage import LandedElsewhere

BLOCK_BYTES: Final = 8 * 1024 * 1024
"""Larger: arrays of a batch leave the cache and cause page faults (a map of properties: twice as many at 16 MiB); smaller: more steps."""


class SegmentFile(Protocol):
    """A file that is read by position."""

    size: int

    def read_into(self, target: memoryview[int], at: int) -> int:
        """Fill `target` with the bytes from `at` on; return their number."""
        ...


class LocalFile:
    """A local file. Raises the system's OSError."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self._file).st_size

    def read_into(self, target: memoryview[int], at: int) -> int:
        """Fill `target` with the bytes from `at` on; return their number."""
        filled = 0
        while filled < len(target):
            got = os.preadv(self._file, [target[filled:]], at + filled)
            if not got:
                break
            filled += got
        return filled

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class RemoteFile:
    """A file named by a URI: s3://, gs://, hdfs://, file://. Raises pyarrow's OSError."""

    def __init__(self, uri: str) -> None:
        system, path = fs.FileSystem.from_uri(uri)
        self._file: Any = system.open_input_file(path)
        self.size: int = self._file.size()

    def read_into(self, target: memoryview[int], at: int) -> int:
        """Fill `target` with the bytes from `at` on; return their number."""
        self._file.seek(at)
        filled = 0
        while filled < len(target):
            got = self._file.readinto(target[filled:])
            if not got:
                break
            filled += got
        return filled

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@contextmanager
def open_segment(path: str) -> Generator[SegmentFile]:
    """Open a segment by its path or URI. Raises OSError (FileNotFoundError if it does not exist)."""
    file = RemoteFile(path) if "://" in path else LocalFile(path)
    try:
        yield file
    finally:
        file.close()


class Block:
    """Some bytes of a segment. Zeros follow the `size` bytes of `content`; `position` is the log position of byte 0."""

    def __init__(self, file: SegmentFile, base: int, stop: int) -> None:
        if base + file.size < stop:
            raise LandedElsewhere(
                f"the segment at position {base} has {file.size} bytes and was to be read up to position {stop}: "
                "the log was cut or replaced since the plan was made; take a new snapshot"
            )
        self._file = file
        self._base = base
        self._stop = stop
        self.content: Content = bytearray(0)
        self.size = 0
        self.position = -1

    @property
    def end(self) -> int:
        """The position after the last byte."""
        return self.position + self.size

    def load(self, position: int, at_least: int = 0) -> None:
        """Load the bytes from a position on: a block, or `at_least`, or the rest up to the stop."""
        room = min(max(BLOCK_BYTES, at_least), self._stop - position)
        kept = b""
        if self.position <= position <= self.end:
            kept = self.content[position - self.position : self.size]
        if len(self.content) < room + SLACK_BYTES:
            self.content = _zeros(room + SLACK_BYTES)
        del_from = len(kept)
        if del_from:
            self.content[:del_from] = kept
        if del_from < room:
            self._read(del_from, room, position)
        self.position, self.size = position, max(room, del_from)
        self.content[self.size : self.size + SLACK_BYTES] = bytes(SLACK_BYTES)

    def peek(self, position: int, size: int) -> bytes:
        """Return bytes of the segment, also after the stop, without changing the loaded ones; fewer at the end of the file."""
        found = bytearray(size)
        return bytes(found[: self._file.read_into(memoryview(found), position - self._base)])

    def _read(self, start: int, end: int, position: int) -> None:
        with memoryview(self.content) as view:
            got = self._file.read_into(view[start:end], position + start - self._base)
        if got < end - start:
            raise LandedElsewhere(
                f"the segment at position {self._base} became shorter while it was read: it was to be read up to "
                f"position {self._stop}; take a new snapshot"
            )


def _zeros(size: int) -> Content:
    """Return memory of large pages if the system has them: random reads of a block of 4 KiB pages cost up to 3 x as much."""
    content = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(AttributeError, OSError):  # not Linux, or a kernel without them
        content.madvise(mmap.MADV_HUGEPAGE)
    return content
