"""Statistics of a consumer by topic: counts, and rates over the last minute. Pure: `now` is an argument."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

SAMPLE_SECONDS = 10.0
MINUTE_SECONDS = 60.0
HOUR_SECONDS = 3600.0


class Counts(NamedTuple):
    """Totals since the start, at one moment."""

    at: float = 0.0
    consumed: int = 0
    failed: int = 0
    calls: int = 0
    call_seconds: float = 0.0
    pulled: int = 0
    pulls: int = 0
    pull_seconds: float = 0.0


class Rates(NamedTuple):
    """The last minute; times in milliseconds. `failed_in_hour` is a count."""

    consumed_per_second: float = 0.0
    failed_per_second: float = 0.0
    call_ms: float = 0.0
    pulled_per_second: float = 0.0
    pull_ms: float = 0.0
    failed_in_hour: int = 0


class TopicStatistics:
    """The counters of one topic. The hot path adds to plain attributes."""

    __slots__ = ("_samples", "call_seconds", "calls", "consumed", "failed", "pull_seconds", "pulled", "pulls")

    def __init__(self, now: float) -> None:
        self.consumed: int = 0
        self.failed: int = 0
        self.calls: int = 0
        self.pulled: int = 0
        self.pulls: int = 0
        self.call_seconds: float = 0.0
        self.pull_seconds: float = 0.0
        self._samples: deque[Counts] = deque([Counts(now)])

    def counts(self, now: float) -> Counts:
        """Return the totals."""
        return Counts(
            now,
            self.consumed,
            self.failed,
            self.calls,
            self.call_seconds,
            self.pulled,
            self.pulls,
            self.pull_seconds,
        )

    def sample(self, now: float) -> None:
        """Save the current totals; called every SAMPLE_SECONDS."""
        self._samples.append(self.counts(now))
        while now - self._samples[0].at > HOUR_SECONDS:
            self._samples.popleft()

    def rates(self, now: float) -> Rates:
        """Return the rates of the last minute."""
        end = self.counts(now)
        start = next((each for each in self._samples if now - each.at <= MINUTE_SECONDS), self._samples[-1])
        seconds = max(end.at - start.at, 1e-9)
        return Rates(
            (end.consumed - start.consumed) / seconds,
            (end.failed - start.failed) / seconds,
            _per(end.call_seconds - start.call_seconds, end.calls - start.calls),
            (end.pulled - start.pulled) / seconds,
            _per(end.pull_seconds - start.pull_seconds, end.pulls - start.pulls),
            end.failed - self._samples[0].failed,
        )


class ConsumerStatistics:
    """The counters of all topics of a consumer."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicStatistics] = {}

    def of(self, topic: str, now: float) -> TopicStatistics:
        """Return the counters of a topic."""
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = TopicStatistics(now)
        return found

    def sample(self, now: float) -> None:
        """Save the totals of every topic."""
        for topic in self._topics.values():
            topic.sample(now)

    def items(self) -> Iterable[tuple[str, TopicStatistics]]:
        """Return the counters by topic."""
        return sorted(self._topics.items())


def _per(seconds: float, count: int) -> float:
    return seconds * 1000 / count if count else 0.0
