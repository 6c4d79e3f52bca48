"""Offsets of a stream: the position in each log, as Spark keeps it in its checkpoint. Pure.

    {"broker-a": {"logId": "…", "position": 4096}}

Two more keys record what a start excluded permanently: `queues` the first offset of queues, `storedFrom` the first store time (ms). They are
part of the offset so that a restart with other options continues as before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gantry_spark.source.reach import QueueBounds


@dataclass(frozen=True, slots=True)
class Reached:
    """The position in a log: everything below `position` was read."""

    log_id: str
    position: int
    queues: Mapping[str, Mapping[int, int]] = field(default_factory=dict[str, Mapping[int, int]])
    stored_from: int | None = None

    def at(self, position: int) -> Reached:
        """Return the same log read up to another position."""
        return replace(self, position=position)

    @property
    def bounds(self) -> QueueBounds:
        """Return what its start excluded, as bounds of queues."""
        return {
            topic: {queue: (first, None) for queue, first in by_queue.items()}
            for topic, by_queue in self.queues.items()
        }


def to_json(reached: Mapping[str, Reached]) -> dict[str, Any]:
    """Return offsets for Spark: equal offsets give equal text."""
    found: dict[str, Any] = {}
    for broker in sorted(reached):
        one = reached[broker]
        plain: dict[str, Any] = {"logId": one.log_id, "position": one.position}
        if one.queues:
            plain["queues"] = {
                topic: {str(queue): first for queue, first in sorted(by_queue.items())}
                for topic, by_queue in sorted(one.queues.items())
            }
        if one.stored_from is not None:
            plain["storedFrom"] = one.stored_from
        found[broker] = plain
    return found


def from_json(offsets: Mapping[str, Any]) -> dict[str, Reached]:
    """Return the offsets that Spark returns. Raises ValueError if they are not from this source."""
    try:
        return {
            broker: Reached(
                str(plain["logId"]),
                int(plain["position"]),
                {
                    topic: {int(queue): int(first) for queue, first in by_queue.items()}
                    for topic, by_queue in plain.get("queues", {}).items()
                },
                plain.get("storedFrom"),
            )
            for broker, plain in offsets.items()
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the checkpoint holds no offsets of this source: {offsets}") from error


def share(available: Mapping[str, int], bytes_max: int) -> dict[str, int]:
    """Divide the bytes of one batch among logs by their unread bytes; each log with unread bytes gets some."""
    total = sum(available.values())
    if total <= bytes_max:
        return dict(available)
    return {broker: max(1, size * bytes_max // total) if size else 0 for broker, size in available.items()}
