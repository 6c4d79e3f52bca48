"""The number of users over the load, by shares of its time, so that every shape fits any length. Pure."""

from collections.abc import Callable
from math import ceil, pi, sin

RAMP_STEPS = 10
BURST = 10
BURST_FROM, BURST_TO = 1 / 3, 1 / 2
SPIKE = 5
SPIKES = (0.2, 0.5, 0.8)
SPIKE_LENGTH = 0.06
SOAK_WAVES = 3
SOAK_STEPS = 48

Shape = Callable[[float, int], int]
"""(share of the load's time that has passed, users asked for) → users."""


def steady(_share: float, users: int) -> int:
    """All users, all the time."""
    return users


def burst(share: float, users: int) -> int:
    """Ten times the users for a sixth of the time."""
    return users * BURST if BURST_FROM <= share < BURST_TO else users


def spike(share: float, users: int) -> int:
    """Five times the users, three times, briefly."""
    return users * SPIKE if in_spike(share) is not None else users


def in_spike(share: float) -> int | None:
    """Return which spike it is."""
    return next(
        (number for number, at in enumerate(SPIKES) if at <= share < at + SPIKE_LENGTH),
        None,
    )


def ramp(share: float, users: int) -> int:
    """From a tenth of the users to all of them, step by step."""
    return max(1, ceil(users * (ramp_step(share) + 1) / RAMP_STEPS))


def ramp_step(share: float) -> int:
    """Return the number of the step, from 0."""
    return min(RAMP_STEPS - 1, int(share * RAMP_STEPS))


def soak(share: float, users: int) -> int:
    """Waves between half of the users and all of them, like days."""
    step = int(share * SOAK_STEPS) / SOAK_STEPS
    return max(1, round(users * (0.75 - 0.25 * sin(2 * pi * (SOAK_WAVES * step + 0.25)))))


SHAPES: dict[str, Shape] = {"steady": steady, "burst": burst, "spike": spike, "ramp": ramp, "soak": soak}


def most(shape: str, users: int) -> int:
    """Return the largest number of users of a shape."""
    factor = {"burst": BURST, "spike": SPIKE}.get(shape, 1)
    return users * factor
