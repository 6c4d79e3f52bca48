"""The log file of one process: the process writes it, the launcher reads the new lines.

A process never waits for the reader, so it runs on when the launcher is stopped, and its log outlives the launcher.
"""

import contextlib
import os
from pathlib import Path

READ_BYTES_MAX = 256 * 1024
LINE_BYTES_MAX = 64 * 1024
FILE_BYTES_MAX = 8 * 1024 * 1024
"""A file that its process does not rotate is emptied after this many bytes were read."""


class Tail:
    """Reads the lines appended to a file, also after the file was rotated or emptied."""

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
        """Return a bounded number of complete new lines."""
        data = self._read()
        if not data:
            self._follow()
            return []
        *lines, self._part = (self._part + data).split(b"\n")
        if len(self._part) > LINE_BYTES_MAX:
            lines, self._part = [*lines, self._part], b""
        return lines

    def last_words(self) -> list[bytes]:
        """Return the remaining output of a process that ended, also without a line end."""
        found: list[bytes] = []
        for _ in range(2):  # the process may have just rotated its log
            while lines := self.lines():
                found += lines
        part, self._part = self._part, b""
        return [*found, part] if part else found

    def empty_when_full(self) -> None:
        """Empty a large file that its process does not rotate."""
        with contextlib.suppress(OSError):
            if self._position >= FILE_BYTES_MAX:
                os.truncate(self._path, 0)
                self._position = 0

    def close(self) -> None:
        """Stop reading."""
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
        """Continue in the new file after a rotation, and at the start of a file that was emptied."""
        with contextlib.suppress(OSError):
            here, there = os.fstat(self._descriptor), self._path.stat()
            if here.st_size < self._position:
                self._position = 0
            if (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino):
                descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
                os.close(self._descriptor)
                self._descriptor, self._position = descriptor, 0
