"""Counts of a topic, and of a group in it, by kind of topic. Plain numbers; store_metrics.py makes rates of them."""

from collections.abc import Callable, Hashable, Mapping
from enum import IntEnum
from typing import Generic, NamedTuple, TypeVar

from broker_store.metrics.rates import Meter
from gantry_chassis.metrics import Counter

Key = TypeVar("Key", bound=Hashable)


class TopicKind(IntEnum):
    """Kind of a topic's messages."""

    USER = 0
    SYSTEM = 1
    """RocketMQ's own: counted in rates, not in the daily totals."""
    INTERNAL = 2
    """Gantry's own, hidden from tools."""


KindOf = Callable[[str], TopicKind]


class Sums(NamedTuple):
    """Numbers of messages since the start."""

    shown: int
    """All but Gantry's own."""
    users: int
    """Those of user topics."""


class SentBack:
    """Messages of one topic that one group sent back."""

    __slots__ = ("count", "meter")

    def __init__(self) -> None:
        self.count = 0
        self.meter = Meter()


class TopicMetrics:
    """Messages stored in one topic."""

    __slots__ = ("bytes", "kind", "messages", "messages_meter", "size_meter")

    def __init__(self, messages: Counter, size: Counter, kind: TopicKind) -> None:
        self.messages = messages
        self.bytes = size
        self.kind = kind
        self.messages_meter = Meter()
        self.size_meter = Meter()


class GroupMetrics:
    """Messages of one topic that one group read."""

    __slots__ = (
        "behind_bytes", "bytes", "kind", "messages", "messages_meter", "pulls", "pulls_meter", "size_meter",
    )  # fmt: skip

    def __init__(self, messages: Counter, size: Counter, kind: TopicKind) -> None:
        self.messages = messages
        self.bytes = size
        self.kind = kind
        self.pulls = 0
        """Answers that carried messages."""
        self.messages_meter = Meter()
        self.size_meter = Meter()
        self.pulls_meter = Meter()
        self.behind_bytes = 0
        """Log bytes between its last read and the end."""


class Totals(Generic[Key]):
    """Messages of all keys by kind. The totals never fall, whatever is deleted."""

    __slots__ = ("_counted", "_forgotten", "_others")

    def __init__(self, counted: Mapping[Key, "TopicMetrics | GroupMetrics"]) -> None:
        self._counted = counted
        self._others: dict[Key, TopicMetrics | GroupMetrics] = {}
        """Keys of topics other than users': few, so that a sum over ten thousand topics checks the kind only here."""
        self._forgotten = [0, 0, 0]

    def add(self, key: Key, counts: "TopicMetrics | GroupMetrics") -> None:
        """Count a key from now on."""
        if counts.kind is not TopicKind.USER:
            self._others[key] = counts

    def forget(self, key: Key, counts: "TopicMetrics | GroupMetrics") -> None:
        """Keep the count of a key that is no longer counted."""
        self._others.pop(key, None)
        self._forgotten[counts.kind] += int(counts.messages.value)

    def sums(self) -> Sums:
        """Return the messages counted since the start."""
        by_kind = [*self._forgotten]
        for counts in self._others.values():
            by_kind[counts.kind] += int(counts.messages.value)
        others = by_kind[TopicKind.SYSTEM] + by_kind[TopicKind.INTERNAL] - sum(self._forgotten[1:])
        users = by_kind[TopicKind.USER] - others
        users += int(sum([counts.messages.value for counts in self._counted.values()]))
        return Sums(shown=users + by_kind[TopicKind.SYSTEM], users=users)
