"""Figures of a process. Counting is an addition to a plain int; Prometheus sees the numbers when it asks.

prometheus_client is imported at the first scrape, not at the start: it costs 3 MB and 50 ms.
"""

import asyncio
import importlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from prometheus_client.core import Metric

Labels = tuple[str, ...]
Readings = float | Mapping[Labels, float] | list[tuple[Labels, float]]
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
LATENCY_SECONDS = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class Counter:
    """A number that only grows. The hot path writes `counter.value += 1` itself."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def add(self, amount: float = 1) -> None:
        """Grow by `amount`."""
        self.value += amount


class Histogram:
    """Observations counted by upper bound; `bounds` ascend, the last bucket is unbounded."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float] = LATENCY_SECONDS) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total: float = 0

    def observe(self, value: float, times: int = 1) -> None:
        """Count `value`, `times` over."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times


Child = TypeVar("Child", Counter, Histogram)


class Family(Generic[Child]):
    """One named figure with label values; ask for a child once and keep it where it is hot."""

    __slots__ = ("_make", "children", "help", "label_names", "name")

    def __init__(self, name: str, words: str, label_names: Labels, make: Callable[[], Child]) -> None:
        self.name, self.help, self.label_names = name, words, label_names
        self.children: dict[Labels, Child] = {}
        self._make = make

    def labels(self, *values: str) -> Child:
        """Return the child with these label values, made at first use."""
        child = self.children.get(values)
        if child is None:
            assert len(values) == len(self.label_names), self.name
            child = self.children[values] = self._make()
        return child

    def forget(self, *values: str) -> None:
        """Drop the child, when what it counted exists no more."""
        self.children.pop(values, None)


class Metrics:
    """All figures of one process."""

    def __init__(self) -> None:
        self._counters: list[Family[Counter]] = []
        self._histograms: list[Family[Histogram]] = []
        self._gauges: list[tuple[str, str, Labels, Callable[[], Readings]]] = []

    def counter(self, name: str, words: str) -> Counter:
        """Add a counter without labels; Prometheus shows it as `name_total`."""
        return self.counters(name, words).labels()

    def counters(self, name: str, words: str, label_names: Labels = ()) -> Family[Counter]:
        """Add a counter with labels."""
        family = Family(name, words, label_names, Counter)
        self._counters.append(family)
        return family

    def histogram(self, name: str, words: str, bounds: Sequence[float] = LATENCY_SECONDS) -> Histogram:
        """Add a histogram without labels."""
        return self.histograms(name, words, (), bounds).labels()

    def histograms(
        self, name: str, words: str, label_names: Labels = (), bounds: Sequence[float] = LATENCY_SECONDS
    ) -> Family[Histogram]:
        """Add a histogram with labels."""
        family = Family(name, words, label_names, lambda: Histogram(bounds))
        self._histograms.append(family)
        return family

    def gauge(self, name: str, words: str, read: Callable[[], Readings], label_names: Labels = ()) -> None:
        """Add a figure that is read when asked: a number, or one for each tuple of label values."""
        self._gauges.append((name, words, label_names, read))

    async def text(self) -> bytes:
        """Return everything in Prometheus' text format."""
        # The first import and the writing of the text run beside the loop; the numbers are read in it, because it
        # is the loop that changes them.
        await asyncio.to_thread(importlib.import_module, "prometheus_client.core")
        return await asyncio.to_thread(_render, list(self.collect()))

    def collect(self) -> Iterable["Metric"]:
        """Yield every figure as it is now."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        for counters in self._counters:
            metric = CounterMetricFamily(counters.name, counters.help, labels=counters.label_names)
            for values, counter in counters.children.items():
                metric.add_metric(values, counter.value)
            yield metric
        for histograms in self._histograms:
            metric = HistogramMetricFamily(histograms.name, histograms.help, labels=histograms.label_names)
            for values, histogram in histograms.children.items():
                metric.add_metric(values, _buckets(histogram), histogram.total)
            yield metric
        for name, words, label_names, read in self._gauges:
            metric = GaugeMetricFamily(name, words, labels=label_names)
            for values, number in _readings(read()):
                metric.add_metric(values, number)
            yield metric


class _Collected:
    """Figures that were read already, as a collector for prometheus_client."""

    def __init__(self, families: list["Metric"]) -> None:
        self._families = families

    def describe(self) -> list["Metric"]:
        return []

    def collect(self) -> list["Metric"]:
        return self._families


def _render(families: list["Metric"]) -> bytes:
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(families))
    return generate_latest(registry)


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Return cumulative counts by upper bound, as Prometheus wants them."""
    running = 0
    buckets: list[tuple[str, float]] = []
    for bound, count in zip((*map(str, histogram.bounds), "+Inf"), histogram.counts, strict=True):
        running += count
        buckets.append((bound, running))
    return buckets


def _readings(readings: Readings) -> Iterable[tuple[Labels, float]]:
    if isinstance(readings, (int, float)):
        return [((), readings)]
    if isinstance(readings, Mapping):
        return [(labels, readings[labels]) for labels in readings]
    return readings
