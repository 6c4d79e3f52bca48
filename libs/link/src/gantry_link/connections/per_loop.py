"""One object per event loop, created at first use and dropped after its loop is closed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class PerLoop(Generic[T]):
    """Holds one T per running loop. Look it up once per connection, not once per request."""

    __slots__ = ("_make", "_of_loop")

    def __init__(self, make: Callable[[asyncio.AbstractEventLoop], T]) -> None:
        self._make = make
        self._of_loop: dict[asyncio.AbstractEventLoop, T] = {}

    def current(self) -> T:
        """Return the object of the running loop."""
        loop = asyncio.get_running_loop()
        found = self._of_loop.get(loop)
        if found is None:
            self._of_loop = {other: kept for other, kept in self._of_loop.items() if not other.is_closed()}
            found = self._of_loop[loop] = self._make(loop)
        return found
