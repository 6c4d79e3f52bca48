"""A file of JSON lines that a thread writes. It is renamed to `.1` when it is full; beyond a bound lines are dropped and counted."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from pathlib import Path

from gantry_chassis.logs.structured import get_logger
from gantry_chassis.machine.environment import MakeThread

WAITING_BYTES_MAX = 8 * 1024 * 1024
FILE_BYTES_MAX = 64 * 1024 * 1024

_log = get_logger()


class AuditFile:
    """A queue of lines, and the thread that appends them to a file."""

    def __init__(self, file: Path, make_thread: MakeThread) -> None:
        """Open or create the file. Raises OSError."""
        self._file = file
        self._descriptor = _opened(file)
        self._lines: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._lock = threading.Lock()
        self.dropped = 0
        """Lines that were dropped because the file was slow or full."""
        self._thread = make_thread(self._step, "audit")
        self._thread.start()

    def put(self, line: bytes) -> None:
        """Queue one line, or drop it if too many wait."""
        with self._lock:
            if self._waiting_bytes + len(line) > WAITING_BYTES_MAX:
                self.dropped += 1
                return
            self._lines.append(line)
            self._waiting_bytes += len(line)
        self._thread.wake()

    def close(self) -> None:
        """Write everything and end the thread. Blocks until then."""
        self._thread.wake()
        self._thread.stop()
        os.close(self._descriptor)

    def _step(self) -> float | None:
        with self._lock:
            lines, self._lines = self._lines, deque()
            self._waiting_bytes = 0
        if lines:
            try:
                self._append(b"".join(lines))
            except OSError as error:
                self.dropped += len(lines)
                _log.error("cannot write the audit log", file=str(self._file), error=error.strerror)
        return None

    def _append(self, data: bytes) -> None:
        here = os.fstat(self._descriptor)
        if here.st_size >= FILE_BYTES_MAX:
            self._file.replace(self._file.with_name(f"{self._file.name}.1"))
            self._reopen()
        elif not _is_same(here, self._file):  # another process of the service, or a tool, moved it
            self._reopen()
        while data:
            data = data[os.write(self._descriptor, data) :]

    def _reopen(self) -> None:
        descriptor = _opened(self._file)
        with contextlib.suppress(OSError):
            os.close(self._descriptor)
        self._descriptor = descriptor


def _opened(file: Path) -> int:
    return os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _is_same(here: os.stat_result, file: Path) -> bool:
    try:
        return os.path.samestat(here, file.stat())
    except FileNotFoundError:
        return False
