"""Store time: never goes back, whatever the wall clock does. Knows nothing of messages."""

from collections.abc import Callable


class StoreClock:
    """max(wall clock, last store time + monotonic time since), in milliseconds.

    A backward step of the wall clock delivers nothing early and stamps nothing twice; a forward step is followed.
    """

    def __init__(self, wall_s: Callable[[], float], monotonic_s: Callable[[], float]) -> None:
        self.wall_s = wall_s
        """Seconds since 1970 by the wall clock, which may step."""
        self.monotonic = monotonic_s
        """Seconds on a clock that only measures distances."""
        self._base_ms = 0
        self._base_s = monotonic_s()

    def now_ms(self) -> int:
        """Store time in milliseconds since 1970."""
        now_ms = self._base_ms + int((self.monotonic() - self._base_s) * 1000)
        wall_ms = int(self.wall_s() * 1000)
        if wall_ms > now_ms:
            self.advance_to(wall_ms)
            return wall_ms
        return now_ms

    def seconds_until(self, store_ms: int) -> float:
        """Return how long it takes until `now_ms` answers so much, if no clock steps; below 0 when it does already."""
        exact_ms = self._base_ms + (self.monotonic() - self._base_s) * 1000
        return (store_ms - max(exact_ms, self.wall_s() * 1000)) / 1000

    def wall_ms(self) -> int:
        """Milliseconds since 1970 by the wall clock, which may step: what an absolute instant waits for beside store time."""
        return int(self.wall_s() * 1000)

    def advance_to(self, store_ms: int) -> None:
        """Never answer less than `store_ms` from now on: what recovery found as the newest store timestamp."""
        if store_ms > self._base_ms:
            self._base_ms = store_ms
            self._base_s = self.monotonic()
