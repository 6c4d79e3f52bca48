"""Splits a job's range into partitions: few and large, because each costs some 50 ms, and split only at record boundaries."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from gantry_spark.decode.segments import LogRange
from gantry_spark.store.boundaries import Boundaries
from gantry_spark.store.snapshot import StoreView

PIECE_BYTES: Final = 128 * 1024 * 1024
"""Below this a task costs more to start than to read."""
PIECE_BYTES_MAX: Final = 512 * 1024 * 1024
"""A task keeps its counts in memory: with pieces of 2.5 GB a worker of a report took 384 MB."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Positions [start, stop) of a log that a job should read and that are missing."""

    broker: str
    start: int
    stop: int

    def __str__(self) -> str:
        return f"{self.broker}: positions {self.start} to {self.stop} ({self.stop - self.start} bytes)"


@dataclass(frozen=True, slots=True)
class Plan:
    """Partitions, each some pieces of logs that one task reads, and the unreadable ranges."""

    partitions: tuple[tuple[LogRange, ...], ...]
    lost: tuple[Lost, ...]


def plan(
    views: Iterable[StoreView],
    ranges: Mapping[str, tuple[int, int]] | None = None,
    *,
    min_partitions: int = 1,
    cores: int | None = None,
    finders: Mapping[str, Boundaries] | None = None,
) -> Plan:
    """Plan reading of views, or of a range [start, stop) of each broker: `start` and `stop` are boundaries.

    At least `min_partitions` partitions where there are that many records.
    """
    wanted = {
        view.broker: (view, *(ranges or {}).get(view.broker, (view.min_position, view.end_position)))
        for view in views
    }
    total = sum(max(0, stop - start) for _, start, stop in wanted.values())
    size = piece_bytes(total, min_partitions, cores or os.cpu_count() or 1)
    pieces: list[LogRange] = []
    lost: list[Lost] = []
    for view, start, stop in wanted.values():
        finder = (finders or {}).get(view.broker) or Boundaries(view)
        lost += missing(view, start, stop)
        pieces += _pieces(view, start, stop, size, finder)
    return Plan(tuple(_pack(pieces, size)), tuple(lost))


def piece_bytes(total: int, min_partitions: int, cores: int) -> int:
    """Return the bytes of a partition: enough to make its start worthwhile, few enough that all cores work."""
    size = min(max(PIECE_BYTES, -(-total // (2 * cores))), PIECE_BYTES_MAX)
    return max(1, min(size, -(-total // max(1, min_partitions))))


def missing(view: StoreView, start: int, stop: int) -> list[Lost]:
    """Return the parts of a range that no segment of the view has."""
    found: list[Lost] = []
    at = start
    for segment in view.segments:
        if segment.base >= stop:
            break
        if segment.base > at:
            found.append(Lost(view.broker, at, segment.base))
        at = max(at, segment.base + segment.size)
    if at < stop:
        found.append(Lost(view.broker, at, stop))
    return found


def _pieces(view: StoreView, start: int, stop: int, size: int, finder: Boundaries) -> list[LogRange]:
    pieces: list[LogRange] = []
    for segment in view.segments:
        low, high = max(start, segment.base), min(stop, segment.base + segment.size)
        if low >= high:
            continue
        count = -(-(high - low) // size)
        cuts = [low]
        for number in range(1, count):
            at = low + (high - low) * number // count
            if at > cuts[-1] and cuts[-1] < (cut := finder.at_or_above(at)) < high:
                cuts.append(cut)
        cuts.append(high)
        pieces += [
            LogRange(segment.path, segment.base, first, behind, view.broker)
            for first, behind in pairwise(cuts)
        ]
    return pieces


def _pack(pieces: Sequence[LogRange], size: int) -> Iterable[tuple[LogRange, ...]]:
    """Combine small consecutive pieces, up to the size of one partition."""
    held: list[LogRange] = []
    held_bytes = 0
    for piece in pieces:
        if held and held_bytes + piece.stop - piece.start > size:
            yield tuple(held)
            held, held_bytes = [], 0
        held.append(piece)
        held_bytes += piece.stop - piece.start
    if held:
        yield tuple(held)
