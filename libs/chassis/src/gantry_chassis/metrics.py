"""Metrics of a process. Counting is an addition to a plain int; Prometheus reads the numbers at a scrape.

prometheus_client costs 3 MB and 50 ms, so the first scrape imports it, not the start.
"""

import asyncio
import importlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import msgspec

if TYPE_CHECKING:
    from prometheus_client.core import Metric

Labels = tuple[str, ...]
Readings = float | Mapping[Labels, float] | list[tuple[Labels, float]]
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
LATENCY_SECONDS = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class Counter:
    """A number that only grows. Hot paths do `counter.value += 1` themselves."""

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
    """A named metric with label values. Hot paths look up a child once and keep it."""

    __slots__ = ("_make", "children", "help", "label_names", "name")

    def __init__(self, name: str, help_text: str, label_names: Labels, make: Callable[[], Child]) -> None:
        self.name, self.help, self.label_names = name, help_text, label_names
        self.children: dict[Labels, Child] = {}
        self._make = make

    def labels(self, *values: str) -> Child:
        """Return the child with these label values, created on first use."""
        child = self.children.get(values)
        if child is None:
            assert len(values) == len(self.label_names), self.name
            child = self.children[values] = self._make()
        return child

    def forget(self, *values: str) -> None:
        """Drop the child of something that no longer exists."""
        self.children.pop(values, None)


class FamilyShown(msgspec.Struct, array_like=True, frozen=True):
    """A metric as it was at a moment, in a form that processes can exchange."""

    kind: Literal["counter", "gauge", "histogram"]
    name: str
    words: str
    label_names: Labels
    bounds: tuple[float, ...]
    """Upper bounds of a histogram's buckets, except the last one, which has none."""
    samples: list[tuple[Labels, tuple[float, ...]]]
    """Label values and the number; for a histogram, the count of each bucket, then the sum of all values."""


class Metrics:
    """All metrics of one process."""

    def __init__(self) -> None:
        self._counters: list[Family[Counter]] = []
        self._histograms: list[Family[Histogram]] = []
        self._read: list[tuple[Literal["gauge", "counter"], str, str, Labels, Callable[[], Readings]]] = []

    def counter(self, name: str, help_text: str) -> Counter:
        """Add a counter without labels; Prometheus shows it as `name_total`."""
        return self.counters(name, help_text).labels()

    def counters(self, name: str, help_text: str, label_names: Labels = ()) -> Family[Counter]:
        """Add a counter with labels."""
        family = Family(name, help_text, label_names, Counter)
        self._counters.append(family)
        return family

    def histogram(self, name: str, help_text: str, bounds: Sequence[float] = LATENCY_SECONDS) -> Histogram:
        """Add a histogram without labels."""
        return self.histograms(name, help_text, (), bounds).labels()

    def histograms(
        self, name: str, help_text: str, label_names: Labels = (), bounds: Sequence[float] = LATENCY_SECONDS
    ) -> Family[Histogram]:
        """Add a histogram with labels."""
        family = Family(name, help_text, label_names, lambda: Histogram(bounds))
        self._histograms.append(family)
        return family

    def gauge(
        self, name: str, help_text: str, read: Callable[[], Readings], label_names: Labels = ()
    ) -> None:
        """Add a gauge read at each scrape: a number, or one per tuple of label values."""
        self._read.append(("gauge", name, help_text, label_names, read))

    def counted(
        self, name: str, help_text: str, read: Callable[[], Readings], label_names: Labels = ()
    ) -> None:
        """Add counters kept elsewhere and read like a gauge; Prometheus shows them as `name_total`."""
        self._read.append(("counter", name, help_text, label_names, read))

    async def text(self) -> bytes:
        """Return everything in Prometheus' text format."""
        return await text_of([({}, self.shown())])

    def shown(self) -> list[FamilyShown]:
        """Return every metric as it is now. Call it in the loop, which changes them."""
        shown = [
            FamilyShown(
                "counter",
                one.name,
                one.help,
                one.label_names,
                (),
                [(v, (c.value,)) for v, c in one.children.items()],
            )
            for one in self._counters
        ]
        for one in self._histograms:
            samples = [(v, (*h.counts, h.total)) for v, h in one.children.items()]
            bounds = next((h.bounds for h in one.children.values()), ())
            shown.append(FamilyShown("histogram", one.name, one.help, one.label_names, bounds, samples))
        for kind, name, help_text, label_names, read in self._read:
            samples = [(values, (float(number),)) for values, number in _readings(read())]
            shown.append(FamilyShown(kind, name, help_text, label_names, (), samples))
        return shown


async def text_of(parts: Sequence[tuple[Mapping[str, str], list[FamilyShown]]]) -> bytes:
    """Return metrics in Prometheus' text format, each part with its own labels, such as those of several processes.

    Each family is shown once, with the samples of all parts.
    """
    # The first import and the formatting run outside the loop.
    return await asyncio.to_thread(_render, parts)


def _families(parts: Sequence[tuple[Mapping[str, str], list[FamilyShown]]]) -> Iterable["Metric"]:
    core = importlib.import_module("prometheus_client.core")
    kinds = {
        "counter": core.CounterMetricFamily, "gauge": core.GaugeMetricFamily, "histogram": core.HistogramMetricFamily,
    }  # fmt: skip
    families: dict[str, Any] = {}
    for labels, shown in parts:
        for one in shown:
            family = families.get(one.name)
            if family is None:
                names = (*labels, *one.label_names)
                family = families[one.name] = kinds[one.kind](one.name, one.words, labels=names)
            for values, numbers in one.samples:
                all_values = (*labels.values(), *values)
                if one.kind == "histogram":
                    family.add_metric(all_values, _buckets(one.bounds, numbers[:-1]), numbers[-1])
                else:
                    family.add_metric(all_values, numbers[0])
    return families.values()


class _Collected:
    """Metrics already read, as a collector for prometheus_client."""

    def __init__(self, families: list["Metric"]) -> None:
        self._families = families

    def describe(self) -> list["Metric"]:
        return []

    def collect(self) -> list["Metric"]:
        return self._families


def _render(parts: Sequence[tuple[Mapping[str, str], list[FamilyShown]]]) -> bytes:
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(list(_families(parts))))
    return generate_latest(registry)


def _buckets(bounds: Sequence[float], counts: Sequence[float]) -> list[tuple[str, float]]:
    """Return cumulative counts by upper bound, as Prometheus expects."""
    return list(zip((*map(str, bounds), "+Inf"), accumulate(counts), strict=True))


def _readings(readings: Readings) -> Iterable[tuple[Labels, float]]:
    if isinstance(readings, (int, float)):
        return [((), readings)]
    if isinstance(readings, Mapping):
        return [(labels, readings[labels]) for labels in readings]
    return readings
