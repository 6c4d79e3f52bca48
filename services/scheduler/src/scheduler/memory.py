"""Gives memory back to the system that the C library keeps for later.

SQLite's pages and the room it sorts in come from the library's heaps, one for each thread. After an index of a million was closed
up to 50 MiB of them stayed there, until the next one was made or not.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import cast


def give_back() -> None:
    """Give back what is free; takes up to some 10 ms without the interpreter. Nothing where the C library has no such call."""
    trim = cast("Callable[[int], int] | None", getattr(_library, "malloc_trim", None))
    if trim is not None:
        trim(0)


_library = ctypes.CDLL(None) if sys.platform == "linux" else None
