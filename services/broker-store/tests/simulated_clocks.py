"""Two clocks moved by the test, and random lives of a store's clock: the wall clock steps and drifts while time passes."""

from broker_store.clocks.clock_care import ClockKeeping
from broker_store.clocks.clock_note import ClockNote
from broker_store.clocks.store_clock import StoreClock

EPOCH_S = 1_700_000_000.0


class Clocks:
    """`true_s` is the time passed. The wall clock is off by `error_s`. `run` names the run of the machine."""

    def __init__(self, error_s: float = 0.0) -> None:
        self.true_s = 0.0
        self.error_s = error_s
        self.run = 0
        self.started_s = 0.0
        self.kept: ClockNote | None = None

    def wall(self) -> float:
        return EPOCH_S + self.true_s + self.error_s

    def steady(self) -> float:
        return self.true_s - self.started_s

    def open(self, newest_ms: int = 0) -> StoreClock:
        """Start the store's clock over a log whose newest record has this store time. Save its note at once."""
        clock = StoreClock(self.wall, self.steady, f"run {self.run}", self.kept)
        if newest_ms:
            clock.advance_to(newest_ms)
        self.kept = clock.note()
        self.keeping = ClockKeeping(clock)
        return clock

    def look(self, clock: StoreClock) -> None:
        """Do what the clock loop does once a second."""
        clock.now_ms()
        note = self.keeping.due()
        if note is not None:
            self.kept = note
            self.keeping.written()

    def pass_time(self, clock: StoreClock, seconds: float, ticks_max: int = 40) -> None:
        """Let time pass, with a look now and then."""
        ticks = max(1, min(ticks_max, int(seconds)))
        for _ in range(ticks):
            self.true_s += seconds / ticks
            self.look(clock)

    def start_machine(self, off_s: float) -> None:
        """Switch the machine off, and on again after a while."""
        self.run += 1
        self.true_s += off_s
        self.started_s = self.true_s - 10
