"""Where the lines of the log go: a bounded queue, and a thread that writes them to stderr or into a file of its own.

Whoever logs never waits: not for a pipe that nobody reads, a terminal that is stopped, nor a disk that does not answer.
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
    """The queue and its thread. What finds no room is counted, and the count is written where the lines are missing."""

    def __init__(self, lost_line: Callable[[int], str], file: Path | None = None) -> None:
        """`lost_line` says in one line how many are missing. With `file`, stdout and stderr of the process lead into it."""
        self._lost_line, self._file = lost_line, file
        self._lines: deque[str] = deque()
        self._waiting_bytes = self._lost = 0
        self._state = threading.Condition()
        self._is_writing = False
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
        """Wait until everything is written, at most so long; whether it is."""
        with self._state:
            return self._state.wait_for(lambda: not self._lines and not self._is_writing, seconds)

    def _write_all(self) -> None:
        while True:
            with self._state:
                self._is_writing = False
                self._state.notify_all()
                self._state.wait_for(lambda: self._lines)
                lines, self._lines = list(self._lines), deque()
                lost, self._lost, self._waiting_bytes = self._lost, 0, 0
                self._is_writing = True
            if lost:
                lines.append(self._lost_line(lost))
            self._put("".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))

    def _put(self, data: bytes) -> None:
        # Where nobody reads any more (EPIPE, a closed terminal, a full disk) the process goes on: it may be draining just then.
        with contextlib.suppress(OSError):
            if self._file is not None:
                _move_aside_when_full(self._file)
        with contextlib.suppress(OSError):
            _write_whole(data)


def _write_whole(data: bytes) -> None:
    while data:
        try:
            data = data[os.write(STDERR, data) :]
        except BlockingIOError:  # a terminal that somebody else made non-blocking
            select.select([], [STDERR], [])


def _lead_into(file: Path) -> None:
    """Have stdout and stderr of this process append to a file, whoever writes to them."""
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.dup2(descriptor, STDOUT)
    os.dup2(descriptor, STDERR)
    os.close(descriptor)


def _move_aside_when_full(file: Path) -> None:
    """Begin a new file when this one is full, or was moved or removed by somebody else."""
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
