"""Facts about the logs next to their rows, and the rows themselves: the interface to the data source. Imports no Spark."""

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
"""Seconds of a time step. Never more than an hour: roll-ups are hourly."""
CHART_STEPS: Final = (*STEPS, 21_600, 86_400, 604_800)
STEPS_MAX: Final = 240
"""The approximate limit of points on a chart's time axis."""


class Bounds(NamedTuple):
    """Offsets of a ConsumeQueue: `max_offset` is that of the next message."""

    broker: str
    topic: str
    queue_id: int
    min_offset: int
    max_offset: int


class Committed(NamedTuple):
    """The progress of a group in a queue."""

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
        """Whether there is no limit."""
        return self.since_ms is None and self.below_ms is None


class Damage(NamedTuple):
    """A piece of a log that could not be read."""

    broker: str
    position: int
    size: int
    why: str


class Configured(NamedTuple):
    """A queue of a topic by its configuration."""

    broker: str
    topic: str
    queue_id: int


@dataclass(frozen=True)
class Facts:
    """The facts of some stores at one moment."""

    snapshot: dict[str, Any]
    """The report's description of the snapshot, as JSON."""
    bounds: tuple[Bounds, ...]
    committed: tuple[Committed, ...]
    now_ms: int
    """The time of the snapshot."""
    first_ms: int
    """Approximate store time of the oldest message: decides only the time step."""
    last_ms: int
    delay_levels: str
    """In RocketMQ's syntax, as `1s 5s 1m`."""
    notes: tuple[str, ...] = field(default=())
    """Notes for the reader, a sentence each."""
    configured: tuple[Configured, ...] = field(default=())
    """The configured queues of topics, including those never written, which have no ConsumeQueue."""


class Engine(NamedTuple):
    """Spark, each half started on first use: jobs run on the context, SQL needs the session."""

    context: Callable[[], SparkContext]
    session: Callable[[], SparkSession]


class Log(Protocol):
    """The rows of the stores."""

    def rows(self, columns: Sequence[str], *, topics: Collection[str] | None = None, span: Span) -> DataFrame:
        """Return these columns of messages, named as in the data source; only of `topics` if given."""
        ...

    def counted(self, step: int, tracked: int, span: Span) -> pa.Table:
        """Return the counts of all messages by steps of `step` seconds, as `counts.SCHEMA` has them."""
        ...

    def damage(self) -> Sequence[Damage]:
        """Return the unreadable pieces so far."""
        ...


def step_for(span_ms: int, steps: Sequence[int]) -> int:
    """Return the finest step (seconds) that divides a span into at most about STEPS_MAX pieces; the coarsest if none does."""
    return next((step for step in steps if span_ms <= step * 1000 * STEPS_MAX), steps[-1])
