"""Converts offsets, positions and times of the options into the part of each log to read: a range of positions, and bounds of queues.

A range begins and ends at a record boundary. Bounds exclude records of a queue in the range below its first or from its last offset on.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final

from gantry_spark.bad_option import BadOption
from gantry_spark.source.options import EARLIEST, LATEST, Offsets
from gantry_spark.store import files as store_files
from gantry_spark.store.boundaries import Boundaries
from gantry_spark.store.snapshot import StoreView

TOPICS_SHOWN_MAX: Final = 10

QueueBounds = dict[str, dict[int, tuple[int, int | None]]]
"""topic: queue id: (lowest offset, the one after the highest; None = no end)."""


@dataclass(frozen=True, slots=True)
class Reach:
    """The part of a log to read: positions [start, stop), without those that the bounds exclude."""

    start: int
    stop: int
    bounds: QueueBounds = field(default_factory=QueueBounds)


def start_of(
    view: StoreView, finder: Boundaries, offsets: Offsets, topics: frozenset[str] | None
) -> tuple[int, QueueBounds]:
    """Return where reading of a log starts. A position below the log's lowest means that part is lost. Raises BadOption."""
    if view.broker in offsets.positions:
        return _position(view, finder, offsets.positions[view.broker]), {}
    if not offsets.queues:
        return (view.end_position if offsets.default == LATEST else view.min_position), {}
    bounds: QueueBounds = {}
    starts = [view.end_position]
    for topic, queue_id in _queues(view, offsets, topics):
        low, high = view.queues.get((topic, queue_id), (0, 0))
        asked = offsets.queues.get(topic, {}).get(view.broker, {}).get(queue_id, EARLIEST)
        if asked == EARLIEST:
            starts.append(_first_position(view, finder, topic, queue_id, low))
            continue
        first = high if asked == LATEST else asked
        bounds.setdefault(topic, {})[queue_id] = first, None
        starts.append(_first_position(view, finder, topic, queue_id, first))
    return min(starts), bounds


def stop_of(
    view: StoreView, finder: Boundaries, offsets: Offsets, topics: frozenset[str] | None
) -> tuple[int, QueueBounds]:
    """Return where reading of a log ends; bounds are (0, the offset after the last). Raises BadOption."""
    if view.broker in offsets.positions:
        return _position(view, finder, offsets.positions[view.broker]), {}
    if not offsets.queues:
        return (view.min_position if offsets.default == EARLIEST else view.end_position), {}
    bounds: QueueBounds = {}
    for topic, queue_id in _queues(view, offsets, topics):
        asked = offsets.queues.get(topic, {}).get(view.broker, {}).get(queue_id, LATEST)
        if asked != LATEST:
            low, _ = view.queues.get((topic, queue_id), (0, 0))
            bounds.setdefault(topic, {})[queue_id] = 0, low if asked == EARLIEST else asked
    return view.end_position, bounds


def merge(starts: QueueBounds, ends: QueueBounds) -> QueueBounds:
    """Return the bounds that satisfy both."""
    merged: QueueBounds = {topic: dict(queues) for topic, queues in starts.items()}
    for topic, queues in ends.items():
        for queue_id, (_, behind) in queues.items():
            first, _ = merged.get(topic, {}).get(queue_id, (0, None))
            merged.setdefault(topic, {})[queue_id] = first, behind
    return merged


def by_time(
    view: StoreView, finder: Boundaries, from_ms: int | None, below_ms: int | None
) -> tuple[int, int]:
    """Return a range with every record stored in [from_ms, below_ms), and few others."""
    if from_ms is None and below_ms is None:
        return view.min_position, view.end_position
    return finder.around_time(from_ms, below_ms)


def _position(view: StoreView, finder: Boundaries, asked: int) -> int:
    if asked in (EARLIEST, LATEST):
        return view.min_position if asked == EARLIEST else view.end_position
    if asked > view.end_position:
        raise BadOption(
            f"position {asked} is beyond the end of {view.broker}'s log, which is {view.end_position}: "
            "it is of another log, or of one that was cut"
        )
    return asked if asked < view.min_position else finder.at_or_above(asked)


def _first_position(view: StoreView, finder: Boundaries, topic: str, queue_id: int, offset: int) -> int:
    low, high = view.queues.get((topic, queue_id), (0, 0))
    if offset >= high or low >= high:
        return view.end_position
    return finder.around_offsets([(topic, queue_id)], offset, None)[0]


def _queues(view: StoreView, offsets: Offsets, topics: frozenset[str] | None) -> list[tuple[str, int]]:
    known = {queue for queue in view.queues if topics is None or queue[0] in topics}
    named = {
        (topic, queue_id)
        for topic, by_broker in offsets.queues.items()
        for queue_id in by_broker.get(view.broker, {})
    }
    return sorted(known | named)


def check_brokers(offsets: Offsets | None, brokers: frozenset[str], name: str) -> None:
    """Refuse offsets of unknown brokers. Raises BadOption."""
    if offsets is None:
        return
    named = set(offsets.positions) | {broker for by_broker in offsets.queues.values() for broker in by_broker}
    if not named <= brokers:
        unknown = ", ".join(sorted(named - brokers))
        raise BadOption(f"{name} names {unknown}; the stores read are {', '.join(sorted(brokers))}")


def unknown_topics(views: Sequence[StoreView], topics: Collection[str]) -> str:
    """Return the topics that no store knows, by its queues or by its configuration, as text; empty if that is unknown."""
    known: set[str] = set()
    for view in views:
        if not view.queues and view.end_position > view.min_position:
            return ""  # a log without its queues
        known |= {topic for topic, _ in view.queues} | store_files.topics(view.directory).keys()
    missing = sorted(set(topics) - known)
    if not missing:
        return ""
    near = get_close_matches(missing[0], sorted(known), n=2)
    own = sorted(topic for topic in known if "%" not in topic and "_SYS_" not in topic)[:TOPICS_SHOWN_MAX]
    there = f"did you mean {' or '.join(near)}?" if near else f"they have {', '.join(own) or 'none'}"
    return f"the stores have no topic {', '.join(missing)}; {there}"


def check_queues(offsets: Offsets | None, view: StoreView, name: str) -> None:
    """Refuse offsets of queues that a store does not have, or beyond their ends. Raises BadOption."""
    if offsets is None or not view.queues:
        return
    counts = store_files.topics(view.directory)
    for topic, by_broker in offsets.queues.items():
        for queue_id, asked in by_broker.get(view.broker, {}).items():
            _, high = view.queues.get((topic, queue_id), (0, 0))
            if (topic, queue_id) not in view.queues and queue_id >= counts.get(topic, 0):
                there = ", ".join(str(queue) for of, queue in sorted(view.queues) if of == topic)
                raise BadOption(
                    f"{name}: {view.broker} has no queue {queue_id} of topic {topic}; it has {there or 'none'}"
                )
            if asked > high:
                raise BadOption(
                    f"{name}: offset {asked} is beyond the end of {topic}/{queue_id} on {view.broker}, which is {high}: "
                    "it is of another log, or of one that was cut"
                )


def lost_offsets(view: StoreView, bounds: QueueBounds) -> list[str]:
    """Describe the requested offsets that retention has deleted."""
    return [
        f"{view.broker}: {topic}/{queue_id} offsets {first} to {view.queues[topic, queue_id][0]}"
        for topic, queues in bounds.items()
        for queue_id, (first, _) in queues.items()
        if (topic, queue_id) in view.queues and 0 < first < view.queues[topic, queue_id][0]
    ]
