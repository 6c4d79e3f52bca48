"""Days in a store's life on a simulated disk, lived to their end or up to any step: what the tests of power cuts are made of."""

import contextlib
from collections.abc import Callable
from typing import Protocol, TypeVar

from broker_store.log.simulated_files import Crashed, SimulatedFiles


class SimulatedDay(Protocol):
    """What a store does in a day, and what it acknowledged on the way."""

    files: SimulatedFiles

    async def live(self) -> None:
        """Live it, until `files` crash."""
        ...


Day = TypeVar("Day", bound=SimulatedDay)


async def steps_of(new_day: Callable[[], SimulatedDay]) -> int:
    """Return how many steps of the disk a day has."""
    day = new_day()
    await day.live()
    return len(day.files.trace)


async def day_until(new_day: Callable[[], Day], step: int) -> Day:
    """Return a day that ended at a step of the disk."""
    day = new_day()
    day.files.crash_after = step
    with contextlib.suppress(Crashed):
        await day.live()
    day.files.crash_after = None
    return day
