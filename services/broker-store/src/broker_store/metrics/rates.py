"""Rates of growing counts over the last 10 seconds, minute, 10 minutes, hour and day. Pure: callers pass the time.

RocketMQ's tools show three kinds: "10s 1min 10min" triples of the whole broker; sums and rates per minute,
hour and day of one name; and totals since midnight.
"""

from array import array
from typing import NamedTuple

MINUTE_STEP_S, MINUTE_KEEP_S = 10, 60
HOUR_STEP_S, HOUR_KEEP_S = 600, 3600
DAY_STEP_S, DAY_KEEP_S = 3600, 86_400
DAY_S = 86_400


class Rate(NamedTuple):
    """Growth within a span of time."""

    sum: int
    per_second: float


NOTHING = Rate(0, 0.0)


class Series:
    """Samples of one count at intervals. A constant count costs nothing."""

    __slots__ = ("_counts", "_keep_s", "_times")

    def __init__(self, keep_s: int) -> None:
        self._keep_s = keep_s
        self._times = array("q")
        self._counts = array("q")

    def sample(self, now_s: int, count: int) -> None:
        """Record the count at a time."""
        times, counts = self._times, self._counts
        if len(counts) >= 2 and counts[-1] == counts[-2] == count:
            times[-1] = now_s  # a plateau needs only its two ends
        else:
            times.append(now_s)
            counts.append(count)
        oldest = now_s - self._keep_s
        drop = 0
        while drop + 1 < len(times) and times[drop + 1] <= oldest:
            drop += 1
        if drop:
            del times[:drop], counts[:drop]

    def rate(self, now_s: int, span_s: int) -> Rate:
        """Return the growth in the last `span_s` seconds up to the newest sample."""
        if len(self._times) < 2:
            return NOTHING
        start = now_s - span_s
        at = len(self._times) - 1
        while at > 0 and self._times[at] > start:
            at -= 1
        begin = max(self._times[at], start)
        total = self._counts[-1] - self._counts[at]
        elapsed = self._times[-1] - begin
        return Rate(total, total / elapsed) if elapsed > 0 else NOTHING


class Meter:
    """Sums and rates of one count by minute, hour and day."""

    __slots__ = ("_day", "_hour", "_minute")

    def __init__(self) -> None:
        self._minute = Series(MINUTE_KEEP_S)
        self._hour = Series(HOUR_KEEP_S)
        self._day = Series(DAY_KEEP_S)

    def sample(self, now_s: int, count: int) -> None:
        """Record the count. Call it every MINUTE_STEP_S, at whole multiples of it."""
        self._minute.sample(now_s, count)
        if now_s % HOUR_STEP_S < MINUTE_STEP_S:
            self._hour.sample(now_s, count)
        if now_s % DAY_STEP_S < MINUTE_STEP_S:
            self._day.sample(now_s, count)

    def begin(self, now_s: int) -> None:
        """Record a count of 0: what is counted until the first sample then belongs to it."""
        for series in (self._minute, self._hour, self._day):
            series.sample(now_s, 0)

    def minute(self, now_s: int) -> Rate:
        """Return the last minute."""
        return self._minute.rate(now_s, MINUTE_KEEP_S)

    def hour(self, now_s: int) -> Rate:
        """Return the last hour, in steps of ten minutes."""
        return self._hour.rate(now_s, HOUR_KEEP_S)

    def day(self, now_s: int) -> Rate:
        """Return the last day, in steps of an hour."""
        return self._day.rate(now_s, DAY_KEEP_S)


class Triple:
    """One count of the whole broker, sampled every second: rates over 10 s, 1 min, 10 min."""

    __slots__ = ("_series",)

    def __init__(self) -> None:
        self._series = Series(600)

    def sample(self, now_s: int, count: int) -> None:
        """Record the count."""
        self._series.sample(now_s, count)

    def text(self, now_s: int) -> str:
        """Return the three rates in the form of RocketMQ's tools: separated by spaces."""
        return " ".join(f"{self._series.rate(now_s, span).per_second:.3f}" for span in (10, 60, 600))

    def per_second(self, now_s: int) -> float:
        """Return the rate over the last 10 seconds."""
        return self._series.rate(now_s, 10).per_second


class Mornings:
    """A total at the last two midnights, from which tools compute today's and yesterday's growth."""

    __slots__ = ("_day", "today", "yesterday")

    def __init__(self, local_s: int) -> None:
        self._day = local_s // DAY_S
        self.today = 0
        """Total at the last midnight, 0 when the store started later."""
        self.yesterday = 0
        """Total at the midnight before."""

    def pass_time(self, local_s: int, total: int) -> None:
        """Record a midnight if it has passed. `local_s` is local time in seconds."""
        day = local_s // DAY_S
        if day > self._day:
            self.yesterday = self.today if day == self._day + 1 else total
            self.today = total
            self._day = day
