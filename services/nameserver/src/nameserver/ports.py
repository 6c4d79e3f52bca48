"""What the handlers need from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from nameserver.routes.tables import Change


class Clock(Protocol):
    """A monotonic clock in milliseconds."""

    def __call__(self) -> int:
        """Return the current time."""
        ...


class Keeper(Protocol):
    """Saves the content of one file."""

    def write(self, content: Callable[[], bytes]) -> asyncio.Future[None]:
        """Replace the content. The future completes once the current `content` is on disk, or fails with the OSError."""
        ...


class Effects(Protocol):
    """Performs the effects of a change: hints, notices, connections to close."""

    def __call__(self, change: Change) -> None:
        """Perform them. Never wait, never raise."""
        ...
