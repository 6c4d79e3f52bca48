"""Progress of a report: a bar with the current stage on a terminal, plain lines elsewhere. Standard library only."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from typing import Final, TextIO

_WIDTH: Final = 24


class Progress:
    """The progress of a report, on stderr."""

    def __init__(self, stages: int, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self._stages = stages
        self._done = -1
        self._words = ""
        self._began = time.monotonic()
        self._is_terminal = self.stream.isatty()

    @property
    def seconds(self) -> float:
        """Return the time since the start."""
        return time.monotonic() - self._began

    def stage(self, words: str) -> None:
        """Start a stage; the previous one is done."""
        self._done += 1
        self._words = words
        if self._is_terminal:
            self._draw()
        else:
            self._put(f"gantry report: {words} ({self._done + 1} of {self._stages}, {self.seconds:.0f} s)\n")

    def say(self, words: str) -> None:
        """Print a permanent line above the bar."""
        self._put(f"{self._clear()}gantry report: {words}\n")
        if self._is_terminal and self._done >= 0:
            self._draw()

    def end(self) -> None:
        """Remove the bar."""
        self._put(self._clear())
        self._done = -1

    def _draw(self) -> None:
        filled = round(_WIDTH * self._done / self._stages)
        bar = "█" * filled + "░" * (_WIDTH - filled)
        line = f"{bar} {100 * self._done // self._stages:3d} %  {self._words}"
        self._put(self._clear() + line[: shutil.get_terminal_size().columns - 1])

    def _clear(self) -> str:
        return "\r\x1b[2K" if self._is_terminal else ""

    def _put(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # a closed terminal is no reason to stop
            self.stream.write(text)
            self.stream.flush()
