"""Gives memory back to the system that nobody uses any more: what the C library keeps for later, and what Python would find late.

SQLite's pages and the room it sorts in come from the library's heaps, one for each thread. After an index of a million was closed
up to 50 MiB of them stayed there, until the next one was made or not.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable
from typing import cast


def give_back() -> None:
    """Give back what is free; takes up to some 10 ms without the interpreter. Nothing where the C library has no such call."""
    trim = cast("Callable[[int], int] | None", getattr(_library, "malloc_trim", None))
    if trim is not None:
        trim(0)


def forget_cycles() -> None:
    """Free what a term leaves that ended by an error: its traceback holds it, and it the traceback.

    The interpreter looks for such late, the later the more there is: the messages of some terms lay in memory together.
    """
    gc.collect()


_library = ctypes.CDLL(None) if sys.platform == "linux" else None
