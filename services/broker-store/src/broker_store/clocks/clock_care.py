"""Reads the clocks once a second, reports steps of the wall clock, and saves what the next start continues from."""

import asyncio

from broker_store.clocks.clock_note import ClockNote, store_clock_note
from broker_store.clocks.shifts import Shift
from broker_store.clocks.steady_wall import STEP_SECONDS_MIN
from broker_store.clocks.store_clock import StoreClock
from broker_store.config.config_files import ConfigFile
from gantry_chassis.logs.structured import get_logger
from gantry_chassis.machine.environment import Workers

LOOK_SECONDS = 1.0
KEEP_SECONDS = 60.0
"""Interval of saving without other reason. A start of the machine continues from there."""

_log = get_logger()


class ClockKeeping:
    """Decides when the clock note is saved. Pure."""

    def __init__(self, clock: StoreClock) -> None:
        self._clock = clock
        self._kept_s = clock.monotonic()
        self._trusted_s = clock.wall.offset_s
        self._planned: Shift | None = None
        self._note: ClockNote | None = None
        self._is_open = False
        """The saved note holds a shift that has not happened yet."""

    def due(self) -> ClockNote | None:
        """Return the note to save now, None while the saved one is valid."""
        clock = self._clock
        now_s, trusted_s = clock.monotonic(), clock.wall.offset_s
        self._planned = planned = clock.plan()
        is_over = self._is_open and not clock.is_planned  # it happened, or the wall clock has stepped again
        has_moved = abs(trusted_s - self._trusted_s) >= STEP_SECONDS_MIN
        is_old = now_s - self._kept_s >= KEEP_SECONDS
        if planned is None and not (is_over or has_moved or is_old or clock.must_be_noted):
            return None
        self._kept_s, self._trusted_s, self._is_open = now_s, trusted_s, planned is not None
        self._note = clock.note(planned)
        return self._note

    def written(self) -> None:
        """Record that the last note is durable."""
        if self._note is not None:
            self._clock.noted(self._note)
        if self._planned is not None:
            self._clock.confirm(self._planned)


class ClockCare:
    """The loop that watches the store's clock."""

    def __init__(self, clock: StoreClock, file: ConfigFile, thread: Workers) -> None:
        self._clock = clock
        self._file = file
        self._thread = thread
        self._keeping = ClockKeeping(clock)
        self._steps = clock.wall.steps
        self._trusted_s = clock.wall.offset_s
        self._is_said = False

    async def run(self) -> None:
        """Look once a second, for ever. Supervised."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Read the clocks once."""
        self._clock.now_ms()
        self._say()
        note = self._keeping.due()
        if note is None:
            return
        try:
            await self._thread.run(store_clock_note, self._file, note)
        except OSError as error:
            _log.warning("the clock note cannot be saved", path=self._file.path, error=str(error))
        else:
            self._keeping.written()

    def _say(self) -> None:
        wall = self._clock.wall
        if wall.steps > self._steps:
            _log.warning(
                "the wall clock stepped: store time follows once the step has lasted",
                seconds=round(wall.step_s, 1), after_seconds=wall.lasts_s,
            )  # fmt: skip
        elif wall.is_stepping and not wall.is_known and not self._is_said:
            _log.warning(
                "the machine restarted, and the wall clock differs from the last known time: it is trusted after a while",
                seconds=round(wall.step_s, 1), after_seconds=wall.lasts_s,
            )  # fmt: skip
            self._is_said = True
        moved_s, self._trusted_s = wall.offset_s - self._trusted_s, wall.offset_s
        if abs(moved_s) >= 1:
            _log.warning(
                "the wall clock is trusted again", moved_seconds=round(moved_s, 1),
                store_time_ahead_seconds=round(-self._clock.difference_s(), 1),
            )  # fmt: skip
        self._steps = wall.steps
