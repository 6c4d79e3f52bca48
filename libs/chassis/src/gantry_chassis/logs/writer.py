"""Writes log lines in a thread, from a bounded queue to stderr or to the log file.

Logging never blocks: not on an unread pipe, a stopped terminal or an unresponsive disk.
"""

import contextlib
import os
import select
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

WAITING_BYTES_MAX = 4 * 1024 * 1024
FILE_BYTES_MAX = 8 * 1024 * 1024
STDOUT, STDERR = 1, 2


class LogWriter:
    """The queue and its thread. Dropped lines are counted, and the count is written in their place."""

    def __init__(self, lost_line: Callable[[int], str], file: Path | None = None) -> None:
        """Use `lost_line` to format the count of dropped lines.

        With `file`, redirect the process's stdout and stderr into it.
        """
        self._lost_line, self._file = lost_line, file
        self._lines: deque[str] = deque()
        self._waiting_bytes = self._lost = 0
        self._state = threading.Condition()
        self._is_writing = self._is_closing = False
        self._thread: threading.Thread | None = None
        if file is not None:
            _lead_into(file)

    def write(self, line: str) -> None:
        """Add one line."""
        with self._state:
            if self._waiting_bytes + len(line) > WAITING_BYTES_MAX:
                self._lost += 1
                return
            self._lines.append(line)
            self._waiting_bytes += len(line)
            if self._thread is None:
                self._thread = threading.Thread(target=self._write_all, name="log", daemon=True)
                self._thread.start()
            self._state.notify_all()

    def flush(self, seconds: float) -> bool:
        """Wait for all lines to be written, up to a timeout. Returns whether they were."""
        with self._state:
            return self._state.wait_for(lambda: not self._lines and not self._is_writing, seconds)

    def close(self, seconds: float) -> None:
        """As `flush`, and end the thread. A later line starts another one.

        Call it before the interpreter ends: Python stops daemon threads at any point then, whatever they hold.
        """
        with self._state:
            thread, self._is_closing = self._thread, self._thread is not None
            self._state.notify_all()
        if thread is not None:
            thread.join(seconds)

    def _write_all(self) -> None:
        while True:
            with self._state:
                self._is_writing = False
                self._state.notify_all()
                self._state.wait_for(lambda: self._lines or self._is_closing)
                if not self._lines:
                    self._thread, self._is_closing = None, False
                    return
                lines, self._lines = list(self._lines), deque()
                lost, self._lost, self._waiting_bytes = self._lost, 0, 0
                self._is_writing = True
            if lost:
                lines.append(self._lost_line(lost))
            self._put("".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))

    def _put(self, data: bytes) -> None:
        # When nobody reads any more (EPIPE, a closed terminal, a full disk) the process continues: it may be
        # draining.
        with contextlib.suppress(OSError):
            if self._file is not None:
                _move_aside_when_full(self._file)
        with contextlib.suppress(OSError):
            _write_whole(data)


def _write_whole(data: bytes) -> None:
    while data:
        try:
            data = data[os.write(STDERR, data) :]
        except BlockingIOError:  # another process made the terminal non-blocking
            select.select([], [STDERR], [])


def _lead_into(file: Path) -> None:
    """Append this process's stdout and stderr to a file."""
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.dup2(descriptor, STDOUT)
    os.dup2(descriptor, STDERR)
    os.close(descriptor)


def _move_aside_when_full(file: Path) -> None:
    """Start a new file when this one is full, or was moved or deleted."""
    here = os.fstat(STDERR)
    if here.st_size >= FILE_BYTES_MAX:
        file.replace(file.with_name(f"{file.name}.1"))
    elif _is_same(here, file):
        return
    _lead_into(file)


def _is_same(here: os.stat_result, file: Path) -> bool:
    try:
        return os.path.samestat(here, file.stat())
    except FileNotFoundError:
        return False
