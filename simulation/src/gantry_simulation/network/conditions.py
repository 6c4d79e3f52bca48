"""How good the network is: latency, cut pieces, buffers. All values are drawn from these ranges by the seed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Conditions:
    """A range is (least, most). Times are nanoseconds, sizes bytes, chances 0 to 1."""

    latency_ns: tuple[int, int] = (20_000, 500_000)
    slow_chance: float = 0.01
    """Chance that a piece takes `slow_ns` instead, as after a lost packet."""
    slow_ns: tuple[int, int] = (1_000_000, 250_000_000)
    gap_ns: tuple[int, int] = (0, 100_000)
    """Least time between two pieces of a stream."""
    cut_chance: float = 0.2
    """Chance that written bytes arrive in several pieces, cut anywhere."""
    pieces_max: int = 5
    window_bytes: tuple[int, int] = (16_384, 262_144)
    """Bytes on the way and unread at the receiver, per direction of a connection. Further bytes stay with the sender."""
    resend_ns: tuple[int, int] = (1_000_000, 1_000_000_000)
    """Time from the end of a partition until what waited for it moves."""
    loss_chance: float = 0.0
    """Chance per arriving piece that the connection is reset instead."""
