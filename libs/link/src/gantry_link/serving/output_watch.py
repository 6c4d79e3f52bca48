"""Checks the unsent output of peers that do not read: after a turn that wrote much to them, then each second until it is sent.

It cannot check within the turn, because the loop passes the bytes to the sockets at its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

WATCH_SECONDS = 1.0


class Watched(Protocol):
    """A connection that may have unsent bytes."""

    def note_unsent(self) -> bool:
        """Report the unsent bytes to the budget. Returns False if they are too few to check again."""
        ...


class OutputWatch:
    """The peers of one server with unsent output, checked in the order in which they were added."""

    def __init__(self) -> None:
        self._new: dict[Watched, None] = {}
        self._slow: dict[Watched, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def soon(self, peer: Watched) -> None:
        """Check this peer after the loop has passed the bytes of this turn to the sockets."""
        if not self._new:
            asyncio.get_running_loop().call_soon(self._look_at_new)
        self._new[peer] = None

    def forget(self, peer: Watched) -> None:
        """Stop checking a peer whose connection ended."""
        self._new.pop(peer, None)
        self._slow.pop(peer, None)

    def close(self) -> None:
        """Stop checking all peers."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_at_new(self) -> None:
        new, self._new = self._new, {}
        self._look_at(new)

    def _look_at_slow(self) -> None:
        self._timer = None
        slow, self._slow = self._slow, {}
        self._look_at(slow)

    def _look_at(self, peers: Iterable[Watched]) -> None:
        for peer in peers:
            if peer.note_unsent():
                self._slow[peer] = None
        if self._slow and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WATCH_SECONDS, self._look_at_slow)
