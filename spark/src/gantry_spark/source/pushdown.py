"""The filters of a query that the source applies itself. Those it applies exactly are dropped from Spark's; Spark applies the rest.

Pure: Spark's filters in, a restriction out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NEVER_NULL: Final = {
    "topic", "brokername", "queueid", "queueoffset", "physicaloffset", "storetimestamp", "borntimestamp", "storesize", "bodysize",
}  # fmt: skip
_COMPARES: Final = (EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)
_BOTH: Final = (EqualTo, EqualNullSafe)

Span = tuple[int | None, int | None]
"""From, below; None = without bound."""


@dataclass(slots=True)
class Restriction:
    """The condition on rows. `topics`, `brokers` and `queues` are sets of allowed values; spans are [from, below)."""

    topics: frozenset[str] | None = None
    brokers: frozenset[str] | None = None
    queues: frozenset[int] | None = None
    spans: dict[str, Span] = field(default_factory=dict[str, Span])
    """Of storetimestamp (milliseconds), physicaloffset and queueoffset."""

    def take(self, filters: Iterable[Filter]) -> list[Filter]:
        """Restrict by filters; return those that Spark must still apply."""
        return [given for given in filters if not self._takes(given)]

    def _takes(self, given: Filter) -> bool:
        """Whether a filter is applied here exactly. Those of positions and offsets only narrow the read."""
        name = ".".join(getattr(given, "attribute", ())).lower()
        if isinstance(given, IsNotNull):
            return name in _NEVER_NULL
        if isinstance(given, (EqualTo, EqualNullSafe, In)):
            values = given.value if isinstance(given, In) else (given.value,)
            if self._takes_values(name, tuple(values)):
                return True
        if isinstance(given, _COMPARES):
            return self._takes_span(name, given)
        return False

    def _takes_values(self, name: str, values: tuple[Any, ...]) -> bool:
        if name in ("topic", "brokername") and all(isinstance(value, str) for value in values):
            field_name = "topics" if name == "topic" else "brokers"
        elif name == "queueid" and all(type(value) is int for value in values):
            field_name = "queues"
        else:
            return False
        held = getattr(self, field_name)
        setattr(self, field_name, frozenset(values) if held is None else held & frozenset(values))
        return True

    def _takes_span(self, name: str, given: Any) -> bool:
        if name == "storetimestamp" and isinstance(given.value, datetime) and given.value.tzinfo is not None:
            # The log has whole milliseconds; a filter may have microseconds.
            micros = (given.value - _EPOCH) // timedelta(microseconds=1)
            at_or_above, above = -(-micros // 1000), micros // 1000 + 1
        elif name in ("physicaloffset", "queueoffset") and type(given.value) is int:
            at_or_above, above = given.value, given.value + 1
        else:
            return False
        if isinstance(given, _BOTH):
            self._narrow(name, (at_or_above, above))
        elif isinstance(given, GreaterThanOrEqual):
            self._narrow(name, (at_or_above, None))
        elif isinstance(given, GreaterThan):
            self._narrow(name, (above, None))
        elif isinstance(given, LessThan):
            self._narrow(name, (None, at_or_above))
        else:
            self._narrow(name, (None, above))
        return name == "storetimestamp"

    def _narrow(self, name: str, span: Span) -> None:
        held = self.spans.get(name, (None, None))
        lows = [low for low in (held[0], span[0]) if low is not None]
        highs = [high for high in (held[1], span[1]) if high is not None]
        self.spans[name] = max(lows, default=None), min(highs, default=None)
