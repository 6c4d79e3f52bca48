"""What the handlers need from outside, in their words."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from nameserver.tables import Change


class Clock(Protocol):
    """Milliseconds that only go forward."""

    def __call__(self) -> int:
        """Return now."""
        ...


class Keeper(Protocol):
    """Keeps one file's content."""

    def write(self, content: Callable[[], bytes]) -> asyncio.Future[None]:
        """Replace it; the future is done when all that `content` says now is on disk, or holds the OSError."""
        ...


class Effects(Protocol):
    """Acts on what an event changed: hints, notices, connections to close."""

    def __call__(self, change: Change) -> None:
        """Act; never wait, never raise."""
        ...
