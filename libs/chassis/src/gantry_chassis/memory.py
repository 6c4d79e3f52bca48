"""Gives memory back to the system that nobody uses any more: what the C library keeps for later, and what Python would find late.

SQLite's pages and the room it sorts in come from the library's heaps, one for each thread. After an index of a million was closed
up to 50 MiB of them stayed there, until the next one was made or not. A gateway kept 470 MiB after twelve requests of 15 MiB.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import sys
from collections.abc import Callable
from typing import cast

LARGE_BYTES = 1024 * 1024
"""What is smaller is used again soon, and is no matter if it is not."""
AFTER_SECONDS = 3.0
"""So long after something large memory is given back, for all that was large until then: once in so long while much is large."""


def give_back() -> None:
    """Give back what is free; takes up to some 10 ms without the interpreter. Nothing where the C library has no such call."""
    trim = cast("Callable[[int], int] | None", getattr(_library, "malloc_trim", None))
    if trim is not None:
        trim(0)


def forget_cycles() -> None:
    """Free what only cycles hold: a connection, or a term that ended by an error whose traceback holds it, and it the traceback.

    The interpreter looks for such late, the later the more there is: the messages of some terms lay in memory together.
    """
    gc.collect()


class LargeThings:
    """Gives memory back a moment after something large was in it, beside the loop."""

    def __init__(self, give_back: Callable[[], None] = give_back) -> None:
        self._give_back = give_back
        self._is_awaited = False
        self._task: asyncio.Future[None] | None = None

    def had(self, size: int) -> None:
        """Note that something of this size is, or was, in memory."""
        if size >= LARGE_BYTES and not self._is_awaited:
            self._is_awaited = True
            asyncio.get_running_loop().call_later(AFTER_SECONDS, self._begin)

    def _begin(self) -> None:
        self._is_awaited = False
        self._task = asyncio.ensure_future(asyncio.to_thread(self._give_back))


_library = ctypes.CDLL(None) if sys.platform == "linux" else None
