"""Tells a register that lacks something from a server that does not know it yet. Keeps the time of the loop."""

import asyncio

from broker_store.replication.register.port import RegisterAway, RegisterUnusable


class Lacking:
    """Something that the register must have: its stream, or a record.

    A server that took the lead a moment ago says that there is none of what it has not applied yet. So a lack is an answer only when it lasts.
    """

    def __init__(self, seconds: float) -> None:
        """Take how long a lack lasts until it is believed."""
        self._seconds = seconds
        self._since: float | None = None

    def found(self) -> None:
        """Record that it is there."""
        self._since = None

    def error(self, words: str) -> RegisterAway | RegisterUnusable:
        """Return the error for an answer that says it is not there."""
        now = asyncio.get_running_loop().time()
        if self._since is None:
            self._since = now
        if now - self._since < self._seconds:
            return RegisterAway(f"{words} This is believed when it lasts {self._seconds:g} s.")
        return RegisterUnusable(words)
