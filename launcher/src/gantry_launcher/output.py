"""What the system says, line by line: to a rotated file, and to the terminal where there is one.

Written by a thread of its own, because a full terminal or a dead disk must not hold up who watches the processes.
"""

import contextlib
import sys
import threading
from collections import deque
from pathlib import Path
from typing import BinaryIO

FILE_BYTES_MAX = 8 * 1024 * 1024
WAITING_LINES_MAX = 20_000
FLUSH_SECONDS_MAX = 2.0


class Output:
    """A bounded queue of lines and the thread that writes them; when it is full the oldest go."""

    def __init__(self, log: Path, *, echo: bool) -> None:
        self._log, self._echo = log, echo
        self._lines: deque[str] = deque(maxlen=WAITING_LINES_MAX)
        self._wake = threading.Condition()
        self._closing = False
        self._file: BinaryIO | None = None
        self._thread = threading.Thread(target=self._write_all, name="output", daemon=True)
        self._thread.start()

    def line(self, prefix: str, text: str) -> None:
        """Add one line."""
        with self._wake:
            self._lines.append(f"{prefix:<10} | {text}\n")
            self._wake.notify()

    def close(self) -> None:
        """Write what waits, but not for longer than a dead disk deserves."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join(FLUSH_SECONDS_MAX)

    def _write_all(self) -> None:
        while True:
            with self._wake:
                while not self._lines and not self._closing:
                    self._wake.wait()
                if not self._lines:
                    break
                text = "".join(self._lines)
                self._lines.clear()
            self._write(text)
        with contextlib.suppress(OSError):
            if self._file is not None:
                self._file.close()

    def _write(self, text: str) -> None:
        if self._echo:
            try:
                sys.stderr.write(text)
                sys.stderr.flush()
            except (OSError, ValueError):
                self._echo = False  # the terminal is gone; the file goes on
        with contextlib.suppress(OSError):  # a log that cannot be written is no reason to stop
            self._open().write(text.encode())

    def _open(self) -> BinaryIO:
        """Return the log file, moved aside to `.1` when it is full."""
        if self._file is not None and self._file.tell() < FILE_BYTES_MAX:
            return self._file
        if self._file is not None:
            full, self._file = (
                self._file,
                None,
            )  # also where it cannot be moved aside, the next line opens a file
            full.close()
            self._log.replace(self._log.with_suffix(".log.1"))
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._log.open("ab", buffering=0)
        return self._file
