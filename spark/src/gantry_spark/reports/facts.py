"""What a report is told about the logs beside their rows, and the rows themselves: the seam to the data source. Imports no Spark."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

STEPS: Final = (1, 5, 10, 30, 60, 300, 600, 1800, 3600)
"""Seconds by which messages are counted. Never more than an hour: roll-ups are by the hour."""
CHART_STEPS: Final = (*STEPS, 21_600, 86_400, 604_800)
STEPS_MAX: Final = 240
"""Points on a chart's axis of time, about."""


class Bounds(NamedTuple):
    """Offsets of one ConsumeQueue: `max_offset` is that of the next message."""

    broker: str
    topic: str
    queue_id: int
    min_offset: int
    max_offset: int


class Committed(NamedTuple):
    """How far a group has come in one queue."""

    group: str
    broker: str
    topic: str
    queue_id: int
    committed: int


class Span(NamedTuple):
    """Store times in ms: from, and below. None: no limit."""

    since_ms: int | None = None
    below_ms: int | None = None

    @property
    def is_all(self) -> bool:
        """Whether everything is meant."""
        return self.since_ms is None and self.below_ms is None


class Damage(NamedTuple):
    """A piece of a log that could not be read."""

    broker: str
    position: int
    size: int
    why: str


class Configured(NamedTuple):
    """A queue that a topic has by its configuration."""

    broker: str
    topic: str
    queue_id: int


@dataclass(frozen=True)
class Facts:
    """One look at some stores."""

    snapshot: dict[str, Any]
    """What the report says of the snapshot, as JSON."""
    bounds: tuple[Bounds, ...]
    committed: tuple[Committed, ...]
    now_ms: int
    """When the snapshot was taken."""
    first_ms: int
    """Store time of the oldest message, about: decides how finely time is cut, nothing else."""
    last_ms: int
    delay_levels: str
    """In RocketMQ's syntax, as `1s 5s 1m`."""
    notes: tuple[str, ...] = field(default=())
    """What a reader must know, a sentence each."""
    configured: tuple[Configured, ...] = field(default=())
    """The queues that stores give their topics, also those that were never written and have no ConsumeQueue."""


class Engine(NamedTuple):
    """Spark, each half started when it is first asked for: jobs run on the context, SQL needs the session."""

    context: Callable[[], SparkContext]
    session: Callable[[], SparkSession]


class Log(Protocol):
    """The rows of the stores."""

    def rows(self, columns: Sequence[str], *, topics: Collection[str] | None = None, span: Span) -> DataFrame:
        """Return these columns of messages, named as the data source names them; only of `topics` where they are given."""
        ...

    def counted(self, step: int, tracked: int, span: Span) -> pa.Table:
        """Return the counts of all messages by steps of `step` seconds, as `counts.SCHEMA` has them."""
        ...

    def damage(self) -> Sequence[Damage]:
        """Return what could not be read so far."""
        ...


def step_for(span_ms: int, steps: Sequence[int]) -> int:
    """Return the finest step (seconds) that cuts a span into at most about STEPS_MAX pieces; the coarsest when none does."""
    return next((step for step in steps if span_ms <= step * 1000 * STEPS_MAX), steps[-1])
