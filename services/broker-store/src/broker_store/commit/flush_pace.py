"""When the open batch of the group commit is written: at once, or a little later because the next flush then carries more. Pure.

A flush costs the same for one message as for a hundred, in time and in CPU (submitting, two hand-overs between threads, cold
caches): about as much as ten to twenty messages. Producers that wait for their answers send again within a moment of each other.
"""

HOLD_S_MAX = 0.02
"""Behind a flush that takes longer than this nothing is held back: a disk that hangs must not decide what is written."""
GATHER_ANSWERS_MIN = 4
"""With fewer senders than this in a flush there is little to gather, and the wait would be all they notice."""
GATHER_FLUSHES = 2.0
"""How many times the duration of a flush the next one may be put off."""
GATHER_S_MAX = 0.001
_SMOOTHING = 8


class FlushPace:
    """Is told when flushes begin and end. Times are seconds of a clock that only measures distances."""

    __slots__ = ("_began_s", "_expected", "_flush_s", "until_s")

    def __init__(self) -> None:
        self._began_s = 0.0
        self._flush_s = 0.0
        self._expected = 0
        self.until_s = 0.0
        """When the gathering that may be going on is over at the latest."""

    def began(self, now_s: float) -> None:
        """Hear that a flush was asked for, and none was under way."""
        self._began_s = now_s

    def ended(self, now_s: float, answered: int, waiting: int) -> None:
        """Hear that a flush answered so many messages, while so many came: all of these senders are expected in the next one."""
        self._flush_s += (min(now_s - self._began_s, GATHER_S_MAX) - self._flush_s) / _SMOOTHING
        self._began_s = now_s
        self._expected = answered + waiting
        may_gather = answered >= GATHER_ANSWERS_MIN
        self.until_s = now_s + min(GATHER_FLUSHES * self._flush_s, GATHER_S_MAX) if may_gather else now_s

    def holds(self, now_s: float) -> bool:
        """Whether what came while a flush is under way is to wait for its end."""
        return now_s - self._began_s < HOLD_S_MAX

    def gathers(self, now_s: float, count: int) -> bool:
        """Whether a batch of so many messages is to wait for more, no flush being under way."""
        return count < self._expected and now_s < self.until_s
