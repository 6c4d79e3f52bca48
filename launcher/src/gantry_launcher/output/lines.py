"""Writes lines to a slow destination through a bounded queue and a thread.

A stopped terminal or a dead disk must not delay the supervisor.
"""

import threading
from collections import deque
from collections.abc import Callable

WAITING_LINES_MAX = 20_000
FLUSH_SECONDS_MAX = 2.0


class Lines:
    """The queue and its thread. A full queue drops its oldest lines and writes their number in their place."""

    def __init__(self, name: str, write: Callable[[str], None]) -> None:
        self._write = write
        self._lines: deque[str] = deque(maxlen=WAITING_LINES_MAX)
        self._lost = 0
        self._wake = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._write_all, name=name, daemon=True)
        self._thread.start()

    def add(self, line: str) -> None:
        """Add one line with its line end, without waiting for the writer."""
        with self._wake:
            self._lost += len(self._lines) == self._lines.maxlen
            self._lines.append(line)
            self._wake.notify()

    def close(self) -> None:
        """Write the waiting lines, for at most FLUSH_SECONDS_MAX."""
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
                    return
                lost, self._lost = self._lost, 0
                text = "".join(self._lines)
                self._lines.clear()
            if lost:
                text = f"gantry     | {lost} lines are missing here: they came faster than they could be written\n{text}"
            self._write(text)
