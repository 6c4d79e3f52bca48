"""Returns unused memory to the system: what the C library keeps, and cycles Python would collect late.

SQLite's pages and sort buffers come from the C library's heaps, one per thread. After an index of a million rows was
closed, up to 50 MiB stayed there. A gateway kept 470 MiB after twelve requests of 15 MiB.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import sys
from collections.abc import Callable
from typing import cast

LARGE_BYTES = 1024 * 1024
"""Smaller blocks are reused soon, and do not matter if they are not."""
AFTER_SECONDS = 3.0
"""Delay from a large block to the return of memory. One return covers all large blocks until then."""


def give_back() -> None:
    """Return free memory to the system. May hold the GIL for some 10 ms.

    Does nothing where the C library has no such call.
    """
    trim = cast("Callable[[int], int] | None", getattr(_library, "malloc_trim", None))
    if trim is not None:
        trim(0)


def forget_cycles() -> None:
    """Collect reference cycles: a connection, or a failed term held by its own traceback.

    The interpreter collects late, and later the more objects exist: messages of several terms were in memory
    together.
    """
    gc.collect()


class LargeThings:
    """Returns memory shortly after a large block, outside the loop."""

    def __init__(self, give_back: Callable[[], None] = give_back) -> None:
        self._give_back = give_back
        self._is_awaited = False
        self._task: asyncio.Future[None] | None = None

    def had(self, size: int) -> None:
        """Record that a block of this size is, or was, in memory."""
        if size >= LARGE_BYTES and not self._is_awaited:
            self._is_awaited = True
            asyncio.get_running_loop().call_later(AFTER_SECONDS, self._begin)

    def _begin(self) -> None:
        self._is_awaited = False
        self._task = asyncio.ensure_future(asyncio.to_thread(self._give_back))


_library = ctypes.CDLL(None) if sys.platform == "linux" else None
