"""The log file of one process: the process writes it, the launcher reads what is new.

A process never waits for a reader: it goes on when the launcher is stopped, and what it said outlives a launcher that dies.
"""

import contextlib
import os
from pathlib import Path

READ_BYTES_MAX = 256 * 1024
LINE_BYTES_MAX = 64 * 1024
FILE_BYTES_MAX = 8 * 1024 * 1024
"""A file that its process does not move aside by itself is emptied when it was read that far."""


class Tail:
    """Reads the lines that are appended to a file, also when the file is moved aside or emptied meanwhile."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1
        self._position = 0
        self._part = b""

    def open_for_process(self) -> int:
        """Return a descriptor that the process appends to, which the caller closes. The first time, reading begins at the end."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        appending = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if self._descriptor < 0:
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            self._position = os.fstat(self._descriptor).st_size
        return appending

    def lines(self) -> list[bytes]:
        """Return the whole lines that are new, a bounded amount of them; empty when there are none."""
        data = self._read()
        if not data:
            self._follow()
            return []
        *lines, self._part = (self._part + data).split(b"\n")
        if len(self._part) > LINE_BYTES_MAX:
            lines, self._part = [*lines, self._part], b""
        return lines

    def last_words(self) -> list[bytes]:
        """Return all that is left of a process that ended, also without a line end."""
        found: list[bytes] = []
        for _ in range(2):  # its last file may have been begun a moment ago
            while lines := self.lines():
                found += lines
        part, self._part = self._part, b""
        return [*found, part] if part else found

    def empty_when_full(self) -> None:
        """Empty the file of a process that does not move it aside by itself."""
        with contextlib.suppress(OSError):
            if self._position >= FILE_BYTES_MAX:
                os.truncate(self._path, 0)
                self._position = 0

    def close(self) -> None:
        """Read no more."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _read(self) -> bytes:
        data = b""
        with contextlib.suppress(OSError):
            data = os.pread(self._descriptor, READ_BYTES_MAX, self._position)
        self._position += len(data)
        return data

    def _follow(self) -> None:
        """Go on in the new file when this one was moved aside, and at the beginning of one that was emptied."""
        with contextlib.suppress(OSError):
            here, there = os.fstat(self._descriptor), self._path.stat()
            if here.st_size < self._position:
                self._position = 0
            if (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino):
                descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
                os.close(self._descriptor)
                self._descriptor, self._position = descriptor, 0
