"""How much work that leads to nothing a client may cause.

Each frame that carries no content costs: PING, SETTINGS, WINDOW_UPDATE, PRIORITY, RST_STREAM, CONTINUATION, empty DATA, unknown ones. Calls that are answered, and content in both
directions, earn. gRPC's clients send some windows and a PING with each call, so an allowance per second alone would cut busy ones; a flood earns nothing.
"""

from typing import Final

from gantry_h2.errors import ConnectionFault, ErrorCode

AT_START: Final = 2000.0
MOST: Final = 20_000.0
PER_SECOND: Final = 50.0
PER_CALL: Final = 20.0
CONTENT_BYTES: Final = 256
"""Bytes of content that earn one: the least piece after which a client would send a window."""
RESET_COST: Final = 10.0
"""A call that its client cancels: the work was for nothing (CVE-2023-44487)."""


class FloodBudget:
    """What a connection has left. `now` is in seconds of a steady clock."""

    def __init__(self, now: float) -> None:
        self._left, self._at = AT_START, now

    def spend(self, cost: float, now: float, what: str) -> None:
        """Take from it. Raises ConnectionFault where nothing is left."""
        self._left -= cost
        if self._left < 0:
            self._left = min(MOST, self._left + (now - self._at) * PER_SECOND)
            self._at = now
            if self._left < 0:
                raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, f"too many frames without content: {what}")

    def earn(self, amount: float) -> None:
        """Add to it, up to its bound."""
        self._left = min(MOST, self._left + amount)
