"""When the next of few due messages are asked for: ahead of their time, and many moments together. Pure: times are arguments.

A turn of the store costs it as much as several messages, and a flush far more: at a thousand a second, asked for as they become due,
nearly each message had both for itself (and 175 us of our CPU, which are 70 now), and waited for our turn and its way besides. So a round (what becomes due in all lanes within
`AHEAD_SECONDS`) leaves every `ROUND_SECONDS`, and the store keeps what is not due yet. What was read too late for that
leaves at once, or `BUSY_SECONDS` behind a round that is not answered: on a quick store that is no time, and a slow one is given fuller
rounds.
"""

from __future__ import annotations

NEVER = float("inf")
BUSY_SECONDS = 0.003
ROUND_SECONDS = 0.025
AHEAD_SECONDS = 0.050
"""About as long as a busy machine may keep us waiting. Who cancels meanwhile still comes first; what the store kept, it forgets in a crash."""
WAY_SECONDS = 0.006
"""What is due sooner does not wait for the next round."""


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
        self._begun_at = 0.0
        self._left_at = -NEVER

    def opens_at(self, due: float) -> float:
        """Return when the round begins that takes what is due at a time, in seconds; infinity while only answers help."""
        if self._on_their_way >= self._rounds_max:
            return NEVER
        busy_until = self._left_at + BUSY_SECONDS if self._on_their_way else 0.0
        return max(due - AHEAD_SECONDS, busy_until, min(due - WAY_SECONDS, self._left_at + ROUND_SECONDS))

    def begin(self, now: float, due: float) -> bool:
        """Begin a round if one may begin now for what is due then. What is `sent` next belongs to it; it may be nothing."""
        if now < self.opens_at(due):
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
