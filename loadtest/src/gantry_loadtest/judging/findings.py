"""The findings of a run: counts and latencies, both over time. Pure; findings of several workers add up."""

from collections import Counter
from dataclasses import dataclass, field
from math import ceil, floor
from typing import Any

from gantry_loadtest.judging.latencies import Latencies

BINS_MAX = 240
BIN_SECONDS_MIN = 0.5
EXAMPLES_MAX = 20


@dataclass
class Findings:
    """Counts by name, latencies by measure, and latencies by measure and moment; a moment is `bin_seconds` long."""

    bin_seconds: float = 1.0
    load_seconds: float = 0.0
    """How long users sent; less than planned if the run was interrupted."""
    counts: Counter[str] = field(default_factory=Counter[str])
    latencies: dict[str, Latencies] = field(default_factory=dict[str, Latencies])
    series: dict[str, dict[int, Latencies]] = field(default_factory=dict[str, dict[int, Latencies]])
    counted: dict[str, dict[int, int]] = field(default_factory=dict[str, dict[int, int]])
    examples: list[str] = field(default_factory=list[str])
    """Descriptions of the first faults."""
    is_final: bool = False

    @classmethod
    def over(cls, seconds: float, load_seconds: float = 0.0) -> "Findings":
        """Return findings with a suitable number of moments for charts."""
        return cls(bin_seconds=max(BIN_SECONDS_MIN, seconds / BINS_MAX), load_seconds=load_seconds)

    def count(self, name: str, at: float | None = None, number: int = 1) -> None:
        """Count an event, at a second of the run where that matters."""
        self.counts[name] += number
        if at is not None:
            moments = self.counted.setdefault(name, {})
            moment = self._moment(at)
            moments[moment] = moments.get(moment, 0) + number

    def took(self, measure: str, at: float, ms: float) -> None:
        """Add a latency at the second of the run it counts from."""
        self.of(measure).add(ms)
        moments = self.series.setdefault(measure, {})
        moment = self._moment(at)
        if moment not in moments:
            moments[moment] = Latencies()
        moments[moment].add(ms)

    def of(self, measure: str) -> Latencies:
        """Return the latencies of a measure."""
        return self.latencies.setdefault(measure, Latencies())

    def between(self, measure: str, begin: float, end: float) -> Latencies:
        """Return the latencies of a measure that count from these seconds, for moments fully within them."""
        found, moments = Latencies(), self.series.get(measure, {})
        for moment in self._moments(begin, end):
            if moment in moments:
                found.merge(moments[moment])
        return found

    def rate(self, name: str, begin: float, end: float) -> float:
        """Return the rate of a count in these seconds; 0.0 where no moment lies within them."""
        moments, counts = self._moments(begin, end), self.counted.get(name, {})
        return (
            sum(counts.get(moment, 0) for moment in moments) / (len(moments) * self.bin_seconds)
            if moments
            else 0.0
        )

    def per_second(self, name: str) -> float:
        """Return the rate of a count over the load."""
        return self.counts[name] / self.load_seconds if self.load_seconds else 0.0

    def example(self, words: str) -> None:
        """Keep an example of a fault while there are few."""
        if len(self.examples) < EXAMPLES_MAX:
            self.examples.append(words)

    def merge(self, other: "Findings") -> None:
        """Add the findings of another process of the same run."""
        self.counts.update(other.counts)
        for measure, latencies in other.latencies.items():
            self.of(measure).merge(latencies)
        for measure, moments in other.series.items():
            own = self.series.setdefault(measure, {})
            for moment, latencies in moments.items():
                own.setdefault(moment, Latencies()).merge(latencies)
        for name, counts in other.counted.items():
            own_counts = self.counted.setdefault(name, {})
            for moment, count in counts.items():
                own_counts[moment] = own_counts.get(moment, 0) + count
        for words in other.examples:
            self.example(words)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "binSeconds": self.bin_seconds,
            "counts": dict(self.counts),
            "latencies": {name: one.to_list() for name, one in self.latencies.items()},
            "series": {
                name: [[moment, one.to_list()] for moment, one in moments.items()]
                for name, moments in self.series.items()
            },
            "counted": {
                name: [list(pair) for pair in moments.items()] for name, moments in self.counted.items()
            },
            "examples": self.examples,
            "isFinal": self.is_final,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Findings":
        """Return the findings of `to_dict`."""
        return cls(
            bin_seconds=data["binSeconds"],
            counts=Counter(data["counts"]),
            latencies={name: Latencies.from_list(one) for name, one in data["latencies"].items()},
            series={
                name: {int(moment): Latencies.from_list(one) for moment, one in moments}
                for name, moments in data["series"].items()
            },
            counted={
                name: {int(moment): count for moment, count in moments}
                for name, moments in data["counted"].items()
            },
            examples=list(data["examples"]),
            is_final=data["isFinal"],
        )

    def _moments(self, begin: float, end: float) -> range:
        return range(ceil(begin / self.bin_seconds), floor(end / self.bin_seconds + 1e-9))

    def _moment(self, at: float) -> int:
        return max(0, int(at / self.bin_seconds))
