"""When the next of few due messages are sent: what becomes due while a settle is on its way is sent together. Pure: times are arguments.

A turn of the store costs it as much as several messages, and a flush far more: at a thousand a second, sent as they become due, nearly
each message had both for itself. So a round (what is due in all lanes at one moment) waits for the answers to the one before, but not
longer than `SECONDS`: on a quick store that is less than a timer's step, and a slow one is given fuller rounds.
"""

from __future__ import annotations

NEVER = float("inf")
SECONDS = 0.003


class Round:
    """Requests that left together."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = 0
        """Those that are not answered yet."""


class RoundPace:
    """The pace of one store's rounds."""

    def __init__(self, rounds_max: int) -> None:
        """`rounds_max`: so many may be on their way, that a store which does not answer is not sent more and more."""
        self._rounds_max = rounds_max
        self._on_their_way = 0
        self._begun = Round()
        self._begun_at = self._left_at = 0.0

    def opens_at(self) -> float:
        """Return from when on a round may begin, in seconds; infinity while only answers help."""
        if not self._on_their_way:
            return 0.0
        return self._left_at + SECONDS if self._on_their_way < self._rounds_max else NEVER

    def begin(self, now: float) -> bool:
        """Begin a round if one may begin now. What is `sent` next belongs to it; it may be nothing."""
        if now < self.opens_at():
            return False
        self._begun, self._begun_at = Round(), now
        return True

    def sent(self) -> Round:
        """Note a request of the round that was begun; it is given back to `answered`, in a later turn of the loop."""
        begun = self._begun
        if not begun.left:
            self._on_their_way += 1
            self._left_at = self._begun_at
        begun.left += 1
        return begun

    def answered(self, of: Round) -> None:
        """Note the end of a request, with or without an answer."""
        of.left -= 1
        if not of.left:
            self._on_their_way -= 1
