"""Lines for somebody who may be slow to take them: a bounded queue and a thread of its own that writes.

A full terminal or a dead disk must not hold up who watches the processes.
"""

import threading
from collections import deque
from collections.abc import Callable

WAITING_LINES_MAX = 20_000
FLUSH_SECONDS_MAX = 2.0


class Lines:
    """The queue and its thread. When the queue is full the oldest lines go; how many is written where they are missing."""

    def __init__(self, name: str, write: Callable[[str], None]) -> None:
        self._write = write
        self._lines: deque[str] = deque(maxlen=WAITING_LINES_MAX)
        self._lost = 0
        self._wake = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._write_all, name=name, daemon=True)
        self._thread.start()

    def add(self, line: str) -> None:
        """Add one line, with its end; never waits for the writer."""
        with self._wake:
            self._lost += len(self._lines) == self._lines.maxlen
            self._lines.append(line)
            self._wake.notify()

    def close(self) -> None:
        """Have what waits written, but not for longer than a dead disk deserves."""
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
