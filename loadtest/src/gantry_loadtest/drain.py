"""How long the readers of a run go on, after its time, for what was acknowledged and has not arrived. Pure."""

DRAINS_MAX = 10
"""So many times the wait without anything new is the longest wait: what comes in drops holds no run up for ever."""


class Drain:
    """Begins when a run's time is over and ends when nothing new has come for `quiet_seconds`. Instants are seconds of the run."""

    def __init__(self, quiet_seconds: float, began: float) -> None:
        self._quiet = quiet_seconds
        self._began = began

    def is_over(self, now: float, moved_at: float, due_at: float) -> bool:
        """Whether readers had their chance: something new came last at `moved_at`, and the last of all is due at `due_at`."""
        since = max(self._began, due_at)
        return now >= min(max(since, moved_at) + self._quiet, since + DRAINS_MAX * self._quiet)
