"""Decides when to send the next few due messages: ahead of time, grouped in rounds. Pure: times are arguments.

A turn of the store costs as much as several messages, and a flush far more. At a thousand a second, sent as they
became due, nearly each message paid for both, and took 175 us of CPU here instead of 70. A round holds what becomes
due in all due queues within `AHEAD_SECONDS`. One leaves every `ROUND_SECONDS`, and the store holds its messages until
they are due. Messages read too late for their round leave at once, or `BUSY_SECONDS` after an unanswered round. A
fast store answers sooner than that; a slow one gets fuller rounds.
"""

from __future__ import annotations

NEVER = float("inf")
BUSY_SECONDS = 0.003
ROUND_SECONDS = 0.025
AHEAD_SECONDS = 0.050
"""About as long as a busy machine may delay us. A cancel in this time still wins. A store that crashes forgets what it held."""
WAY_SECONDS = 0.006
"""Messages due sooner do not wait for the next round."""


class Round:
    """Requests that left together."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = 0
        """Unanswered requests."""


class RoundPace:
    """The pace of one store's rounds."""

    def __init__(self, rounds_max: int) -> None:
        """Allow `rounds_max` rounds in flight, so that an unresponsive store is not flooded."""
        self._rounds_max = rounds_max
        self._on_their_way = 0
        self._begun = Round()
        self._begun_at = 0.0
        self._left_at = -NEVER

    def opens_at(self, due: float) -> float:
        """Return when the round for messages due at a time begins, in seconds; infinity while it waits for an answer."""
        if self._on_their_way >= self._rounds_max:
            return NEVER
        busy_until = self._left_at + BUSY_SECONDS if self._on_their_way else 0.0
        return max(due - AHEAD_SECONDS, busy_until, min(due - WAY_SECONDS, self._left_at + ROUND_SECONDS))

    def begin(self, now: float, due: float) -> bool:
        """Begin a round for messages due then, if one may begin now. The next `sent` requests belong to it."""
        if now < self.opens_at(due):
            return False
        self._begun, self._begun_at = Round(), now
        return True

    def sent(self) -> Round:
        """Record a request of the current round. Pass the result to `answered`, in a later turn of the loop."""
        begun = self._begun
        if not begun.left:
            self._on_their_way += 1
            self._left_at = self._begun_at
        begun.left += 1
        return begun

    def answered(self, of: Round) -> None:
        """Record that a request ended, with or without an answer."""
        of.left -= 1
        if not of.left:
            self._on_their_way -= 1
