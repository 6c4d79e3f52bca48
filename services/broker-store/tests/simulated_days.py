"""Days of a store on a simulated disk, run to their end or up to any step: the base of power cut tests.

A run crashes at a sample of a day's steps, chosen by its seed. `-m soak` crashes at every step.
"""

import contextlib
import itertools
import random
from collections.abc import Callable
from typing import Protocol, TypeVar

import pytest

from broker_store.log.files.simulated_files import Crashed, SimulatedFiles


class SimulatedDay(Protocol):
    """The acts of a store in a day, and its acknowledgements."""

    files: SimulatedFiles

    async def live(self) -> None:
        """Run it, until `files` crash."""
        ...


Day = TypeVar("Day", bound=SimulatedDay)


async def steps_of(new_day: Callable[[], SimulatedDay]) -> int:
    """Return how many disk steps a day has."""
    day = new_day()
    await day.live()
    return len(day.files.trace)


async def day_until(new_day: Callable[[], Day], step: int) -> Day:
    """Return a day that ended at a disk step."""
    day = new_day()
    day.files.crash_after = step
    with contextlib.suppress(Crashed):
        await day.live()
    day.files.crash_after = None
    return day


def crashes(*, sampled: int) -> pytest.MarkDecorator:
    """Parametrize a test with `crashes_max`: a sample of this size, and with `-m soak` no limit."""
    everywhere = pytest.param(None, id="everywhere", marks=[pytest.mark.soak, pytest.mark.timeout(0)])
    return pytest.mark.parametrize("crashes_max", [pytest.param(sampled, id="sample"), everywhere])


def chosen_steps(steps: range, crashes_max: int | None, seed: int) -> list[int]:
    """Return at most this many of the steps, in order. Many of them are spread over all parts of the range."""
    if crashes_max is None or len(steps) <= crashes_max:
        return list(steps)
    rng = random.Random(seed)
    bounds = [len(steps) * part // crashes_max for part in range(crashes_max + 1)]
    return [steps[rng.randrange(low, high)] for low, high in itertools.pairwise(bounds)]
