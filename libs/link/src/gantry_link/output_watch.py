"""Looks at what waits for peers that do not read: after the turn that wrote much to them, then each second until all is taken.

In the turn itself nobody knows: the loop gives bytes to the sockets at its end.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

WATCH_SECONDS = 1.0


class Watched(Protocol):
    """A connection that may have bytes waiting."""

    def note_unsent(self) -> bool:
        """Tell the budget how many bytes wait; False when it is too few to come back for."""
        ...


class OutputWatch:
    """The peers of one server that something waits for."""

    def __init__(self) -> None:
        self._new: set[Watched] = set()
        self._slow: set[Watched] = set()
        self._timer: asyncio.TimerHandle | None = None

    def soon(self, peer: Watched) -> None:
        """Look at this peer once the loop has given the bytes of this turn to the sockets."""
        if not self._new:
            asyncio.get_running_loop().call_soon(self._look_at_new)
        self._new.add(peer)

    def forget(self, peer: Watched) -> None:
        """Stop looking: the connection is gone."""
        self._new.discard(peer)
        self._slow.discard(peer)

    def close(self) -> None:
        """Look at nobody any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_at_new(self) -> None:
        new, self._new = self._new, set()
        self._look_at(new)

    def _look_at_slow(self) -> None:
        self._timer = None
        slow, self._slow = self._slow, set()
        self._look_at(slow)

    def _look_at(self, peers: set[Watched]) -> None:
        for peer in peers:
            if peer.note_unsent():
                self._slow.add(peer)
        if self._slow and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WATCH_SECONDS, self._look_at_slow)
