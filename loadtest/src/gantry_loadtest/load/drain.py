"""How long readers continue after a run for acknowledged messages that have not arrived. Pure."""

DRAINS_MAX = 10
"""The longest wait in multiples of `quiet_seconds`: a trickle of arrivals cannot hold a run for ever."""


class Drain:
    """Begins when a run's time is over and ends when nothing new arrived for `quiet_seconds`.

    Instants are seconds of the run.
    """

    def __init__(self, quiet_seconds: float, began: float) -> None:
        self._quiet = quiet_seconds
        self._began = began

    def is_over(self, now: float, moved_at: float, due_at: float) -> bool:
        """Whether readers waited long enough: last arrival at `moved_at`, last message due at `due_at`."""
        since = max(self._began, due_at)
        return now >= min(max(since, moved_at) + self._quiet, since + DRAINS_MAX * self._quiet)
