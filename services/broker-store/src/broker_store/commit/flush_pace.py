"""Decides when the open batch of the group commit is written: now, or later so that the next flush carries more. Pure.

A flush costs the same for 1 message as for 100, in time and in CPU (submission, two thread switches, cold
caches): about as much as 10 to 20 messages. Producers that wait for answers send again almost at the same
time. Those that send at a fixed rate do not: a wait in vain for them would delay every message.
"""

HOLD_S_MAX = 0.02
"""A flush longer than this delays no batch: a hanging disk must not decide what is written."""
GATHER_ANSWERS_MIN = 4
"""With fewer answers per flush than this, waiting gains nothing and senders notice the delay."""
GATHER_FLUSHES = 2.0
"""The next flush may be delayed by at most this many durations of the last one."""
GATHER_S_MAX = 0.002
REST_FLUSHES = 8
"""So many flushes after a wait in vain, batches wait for nobody."""
_SMOOTHING = 8


class FlushPace:
    """Follows the begin and end of flushes. Times are monotonic seconds."""

    __slots__ = ("_began_s", "_expected", "_flush_s", "_is_gathering", "_rest", "until_s")

    def __init__(self) -> None:
        self._began_s = 0.0
        self._flush_s = 0.0
        self._expected = 0
        self._is_gathering = False
        self._rest = 0
        """Flushes until a batch may wait again."""
        self.until_s = 0.0
        """Latest end of the current wait for more messages."""

    def began(self, now_s: float) -> None:
        """Record that a flush was requested while none was running."""
        self._began_s = now_s

    def ended(self, now_s: float, answered: int, waiting: int) -> None:
        """Record the end of a flush: how many messages it answered, and how many arrived meanwhile.

        The next flush expects all of these senders.
        """
        self._flush_s += (min(now_s - self._began_s, GATHER_S_MAX) - self._flush_s) / _SMOOTHING
        self._began_s = now_s
        self._expected = answered + waiting
        self._is_gathering = False
        self._rest -= self._rest > 0
        may_gather = answered >= GATHER_ANSWERS_MIN and not self._rest
        self.until_s = now_s + min(GATHER_FLUSHES * self._flush_s, GATHER_S_MAX) if may_gather else now_s

    def holds(self, now_s: float) -> bool:
        """Whether messages that arrive during a flush wait for its end."""
        return now_s - self._began_s < HOLD_S_MAX

    def gathers(self, now_s: float, count: int) -> bool:
        """Whether a batch of `count` messages waits for more while no flush runs."""
        if count < self._expected and now_s < self.until_s:
            self._is_gathering = True
            return True
        if self._is_gathering and 4 * count < 3 * self._expected:
            self._rest = REST_FLUSHES
        self._is_gathering = False
        return False
