"""Spare descriptors, released one at a time so that a file can be opened when the process has no other left.

Client connections have a lower limit than the process. The spares are for what exceeds it all the same.
"""

import errno
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})
"""Errors that mean that this process, or the machine, has too many open files."""
SPARES = 16
"""As many as threads may open files at once, and a few segments."""

T = TypeVar("T")


class SpareDescriptors:
    """For any thread."""

    def __init__(self, count: int = SPARES) -> None:
        self._count = count
        self._spares: list[int] = []
        self._lock = threading.Lock()
        self._fill()

    def open(self, opening: Callable[[], T]) -> T:
        """Return what `opening` returns. While it finds no descriptor, retry with a spare one, down to the last."""
        while True:
            try:
                opened = opening()
            except OSError as error:
                if error.errno not in NO_DESCRIPTOR or not self._release_one():
                    raise
            else:
                if len(self._spares) < self._count:
                    self._fill()
                return opened

    def close(self) -> None:
        """Release all of them."""
        self._count = 0
        while self._release_one():
            pass

    def _release_one(self) -> bool:
        with self._lock:
            if not self._spares:
                return False
            os.close(self._spares.pop())
            return True

    def _fill(self) -> None:
        """Open as many as are missing and available."""
        with self._lock, suppress(OSError):
            while len(self._spares) < self._count:
                self._spares.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))

    def __del__(self) -> None:
        """Close with the last reference."""
        self.close()
