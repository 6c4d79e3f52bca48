"""Store time: never goes back, and runs at the speed of time, whatever the wall clock does. Knows nothing of messages."""

from collections.abc import Callable

from broker_store.clocks.clock_note import ClockNote
from broker_store.clocks.shifts import Shift, Shifts
from broker_store.clocks.steady_wall import STEP_SECONDS_MIN, SteadyWall

AHEAD_SECONDS_MAX = 0.5
"""Store time that is ahead of the wall clock by less than this stays there: two readings are never simultaneous."""
CLOSE_SECONDS = 0.00005
SLOWER_RATE = 1 / 16
"""How much slower store time runs while it is ahead of the wall clock: an hour then takes up to four minutes more."""
FASTER_RATE = 1 / 2000
"""How much faster it runs while it is behind: as fast as systems let clocks run."""
READ_SECONDS_MAX = 0.1
"""If reading both clocks takes longer than this, their difference is meaningless."""
NOTE_SECONDS = 0.005
"""A wall clock that was set back by more than this, and would slow store time down, is saved first."""
PLAN_MS = 3000
"""A shift is saved this long before it happens."""


class StoreClock:
    """Store time in milliseconds, by the monotonic clock. Follows the wall clock as far as it is trusted (steady_wall.py).

    It follows a small difference little by little. A step ahead that has lasted moves store time at once,
    but nothing begun before ends sooner (shifts.py). After a step back, store time runs slower until both
    agree.
    """

    def __init__(
        self,
        wall_s: Callable[[], float],
        monotonic_s: Callable[[], float],
        boot: str = "",
        note: ClockNote | None = None,
    ) -> None:
        """`boot` identifies the run of the machine. `note` is what the previous run of the store saved."""
        self.wall_s = wall_s
        """Seconds since 1970 by the wall clock, which may step."""
        self.monotonic = monotonic_s
        """Monotonic seconds."""
        self._boot = boot
        self._seen_s = now_s = monotonic_s()
        self._planned: Shift | None = None
        self._unknown_from_ms = 0 if note is None else note.unknown_from_ms
        self._is_first_start = False
        """The first start of the store since the machine started, after a run that trusted its wall clock."""
        if note is None:
            self._offset_s = offset_s = max(wall_s() - monotonic_s() for _ in range(3))
            self.shifts, self.wall = Shifts(), SteadyWall(offset_s, is_known=True)
        elif boot and note.boot == boot and note.steady_ms <= now_s * 1000:
            self._offset_s, self.shifts, wall_offset_s = _continued(note, now_s)
            self.wall = SteadyWall(wall_offset_s, is_known=note.is_known)
        else:
            self._offset_s = note.store_ms / 1000 - now_s
            self.shifts = _shifts_until(note, note.store_ms)
            self.wall = SteadyWall(note.wall_ms / 1000 - now_s, is_known=False)
            self._is_first_start = not self._unknown_from_ms
            self._unknown_from_ms = self._unknown_from_ms or note.store_ms
        self._noted_s = self.wall.offset_s
        """The trusted offset of the wall clock in the last saved note."""

    def now_ms(self) -> int:
        """Store time in milliseconds since 1970."""
        wall_s = self.wall_s()
        steady_s = self.monotonic()
        gap_s = wall_s - steady_s - self._offset_s
        if -AHEAD_SECONDS_MAX < gap_s < CLOSE_SECONDS and not self.wall.is_stepping:
            self._seen_s = steady_s
        else:
            steady_s = self._look(wall_s - steady_s, steady_s)
        return int((steady_s + self._offset_s) * 1000)

    def steady_ms(self) -> int:
        """As `now_ms`, but nothing moves it ahead: for the ends of leases and similar."""
        return self.now_ms() - self.shifts.total_ms

    def since_ms(self, store_ms: int) -> int:
        """Return how many milliseconds ago store time was `store_ms`."""
        return self.now_ms() - store_ms - self.shifts.since(store_ms)

    def before(self, store_ms: int, passed_ms: int) -> int:
        """Return store time `passed_ms` before it was `store_ms`."""
        return self.shifts.before(store_ms, passed_ms)

    def ago_ms(self, passed_ms: int) -> int:
        """Return store time `passed_ms` ago."""
        return self.shifts.before(self.now_ms(), passed_ms)

    def seconds_until(self, store_ms: int) -> float:
        """Return the least seconds until `now_ms` returns this; negative when it does already."""
        return store_ms / 1000 - self._offset_s - self.monotonic()

    def wall_ms(self) -> int:
        """Milliseconds since 1970 by the wall clock, which may step.

        An absolute instant must be reached by it and by store time.
        """
        return int(self.wall_s() * 1000)

    def trusted_ms(self) -> int:
        """Milliseconds since 1970 by the trusted wall clock, by which the age of files is measured."""
        self.now_ms()
        return int((self.monotonic() + self.wall.offset_s) * 1000)

    def difference_s(self) -> float:
        """How far the wall clock is ahead of store time now, in seconds."""
        return self.wall_s() - self.monotonic() - self._offset_s

    def advance_to(self, store_ms: int) -> None:
        """Never return less than `store_ms` from now on: the newest store timestamp that recovery found."""
        if self._is_first_start:
            store_ms += 1  # no message of this run of the machine has a store time of the last one
            self._unknown_from_ms = max(self._unknown_from_ms, store_ms)
        offset_s = (store_ms + 0.5) / 1000 - self.monotonic()
        self._offset_s = max(self._offset_s, offset_s)

    # --- saved state ---

    def note(self, planned: Shift | None = None) -> ClockNote:
        """Return what the next run of the store continues from, if `planned` is to happen."""
        store_ms, steady_s = self.now_ms(), self.monotonic()
        shifts = self.shifts.plus(planned) if planned is not None else self.shifts
        wall_ms = int((steady_s + self.wall.offset_s) * 1000)
        is_known = self.wall.is_known
        unknown_from_ms = 0 if is_known else self._unknown_from_ms
        return ClockNote(
            self._boot, int(steady_s * 1000), store_ms, wall_ms, is_known, shifts.all, unknown_from_ms
        )

    def noted(self, note: ClockNote) -> None:
        """Record that a note is durable. Store time may now run slower until it agrees with the wall clock in the note.

        Not before: a crash would forget that, and store time would jump ahead.
        """
        self._noted_s = (note.wall_ms - note.steady_ms) / 1000

    @property
    def must_be_noted(self) -> bool:
        """Whether store time runs slower only once a note is saved."""
        is_ahead = self.wall.offset_s - self._offset_s < -AHEAD_SECONDS_MAX
        return is_ahead and self._noted_s - self.wall.offset_s > NOTE_SECONDS

    def plan(self) -> Shift | None:
        """Return the shift of store time to plan: the wall clock stepped ahead, and that has lasted.

        It happens once it is saved (`confirm`). Otherwise a crash after it would deliver early what was
        begun before it. After a start of the machine it is the time that the machine was off, and moves only
        what began since.
        """
        now_ms = self.now_ms()
        wall = self.wall
        by_s = wall.offset_s + wall.step_s - self._offset_s
        if self._planned is not None or not wall.has_lasted(self._seen_s) or by_s < STEP_SECONDS_MIN:
            return None
        return Shift(now_ms + PLAN_MS, int(by_s * 1000), 0 if wall.is_known else self._unknown_from_ms)

    @property
    def is_planned(self) -> bool:
        """Whether a shift is confirmed and still to come."""
        return self._planned is not None

    def confirm(self, planned: Shift) -> bool:
        """Let the saved shift happen. False when saving took too long, or the wall clock has stepped again."""
        is_in_time = self.now_ms() < planned.at_ms and self.wall.has_lasted(self._seen_s)
        self._planned = planned if is_in_time else None
        return is_in_time

    # --- following the wall clock ---

    def _look(self, offset_s: float, steady_s: float) -> float:
        """Follow the wall clock. Returns when it was read, on the monotonic clock."""
        wall = self.wall
        if abs(offset_s - wall.offset_s) >= STEP_SECONDS_MIN:
            before_s, wall_s, steady_s = self.monotonic(), self.wall_s(), self.monotonic()
            offset_s = wall_s - steady_s
            if steady_s - before_s > READ_SECONDS_MAX:
                return steady_s
        wall.look(offset_s, steady_s)
        if wall.has_lasted(steady_s):
            self._trust(steady_s)
        elif self._planned is not None:
            self._planned = None
        passed_s, self._seen_s = steady_s - self._seen_s, steady_s
        lead_s = wall.offset_s - self._offset_s
        if lead_s > 0:
            self._offset_s += min(lead_s, passed_s * FASTER_RATE)
        too_far_s = self._offset_s - max(wall.offset_s, self._noted_s) - AHEAD_SECONDS_MAX
        if too_far_s > 0 and wall.is_known:
            self._offset_s -= min(too_far_s, passed_s * SLOWER_RATE)
        return steady_s

    def _trust(self, steady_s: float) -> None:
        """Follow a step that has lasted: move store time if it is behind, once the shift is saved."""
        wall, planned = self.wall, self._planned
        offset_s = wall.offset_s + wall.step_s
        if offset_s - self._offset_s < STEP_SECONDS_MIN:
            wall.trust()
        elif planned is not None and (steady_s + self._offset_s) * 1000 >= planned.at_ms:
            self._offset_s += planned.by_ms / 1000
            self.shifts, self._planned = self.shifts.plus(planned), None
            wall.trust()


def _continued(note: ClockNote, now_s: float) -> tuple[float, Shifts, float]:
    """Return the offset of store time, its shifts, and the trusted offset of the wall clock, within one run of the machine."""
    ahead_s = (note.store_ms - note.wall_ms) / 1000 - AHEAD_SECONDS_MAX if note.is_known else 0.0
    slower_s = min(max(ahead_s, 0.0), (now_s - note.steady_ms / 1000) * SLOWER_RATE)
    offset_s = (note.store_ms - note.steady_ms) / 1000 - slower_s
    shifts = _shifts_until(note, (now_s + offset_s) * 1000)
    if shifts.all and shifts.all[-1].at_ms > note.store_ms:  # it was planned, and its time has come
        offset_s += shifts.all[-1].by_ms / 1000
        return offset_s, shifts, offset_s
    return offset_s, shifts, (note.wall_ms - note.steady_ms) / 1000


def _shifts_until(note: ClockNote, store_ms: float) -> Shifts:
    return Shifts(shift for shift in note.shifts if shift.at_ms <= store_ms)
