"""Writes the log lines of all processes to a rotated file, and to the terminal if there is one.

Each has its own thread, so a stopped terminal (Ctrl-S) delays neither the file nor the supervisor.
"""

import contextlib
import sys
from pathlib import Path
from typing import BinaryIO

from gantry_launcher.output.lines import Lines

FILE_BYTES_MAX = 8 * 1024 * 1024


class Output:
    """The log of the whole system, and its echo on the terminal."""

    def __init__(self, log: Path, *, echo: bool) -> None:
        self._log = log
        self._file: BinaryIO | None = None
        self._is_terminal_gone = False
        self._to_file = Lines("log", self._write)
        self._to_terminal = Lines("terminal", self._show) if echo else None

    def line(self, prefix: str, text: str) -> None:
        """Add one line."""
        line = f"{prefix:<10} | {text}\n"
        self._to_file.add(line)
        if self._to_terminal is not None and not self._is_terminal_gone:
            self._to_terminal.add(line)

    def close(self) -> None:
        """Write the waiting lines, for a bounded time."""
        if self._to_terminal is not None:
            self._to_terminal.close()
        self._to_file.close()
        with contextlib.suppress(OSError):
            if self._file is not None:
                self._file.close()

    def _show(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError):
            self._is_terminal_gone = True  # the file is still written

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):  # the system runs on without a log
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
