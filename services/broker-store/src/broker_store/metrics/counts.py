"""What is counted of one topic, of one group in it, and whose messages these are. Plain numbers; figures.py makes rates of them."""

from collections.abc import Callable, Hashable, Mapping
from enum import IntEnum
from typing import Generic, NamedTuple, TypeVar

from broker_store.metrics.rates import Meter
from gantry_chassis.metrics import Counter

Key = TypeVar("Key", bound=Hashable)


class TopicKind(IntEnum):
    """Whose messages a topic holds."""

    USER = 0
    SYSTEM = 1
    """RocketMQ's own: counted in rates, not in the totals of a day."""
    INTERNAL = 2
    """Gantry's own, which no tool is told of."""


KindOf = Callable[[str], TopicKind]


class Sums(NamedTuple):
    """Messages since the start."""

    shown: int
    """All but Gantry's own."""
    users: int
    """Those of user topics."""


class SentBack:
    """What one group sent back of one topic."""

    __slots__ = ("count", "meter")

    def __init__(self) -> None:
        self.count = 0
        self.meter = Meter()


class TopicMetrics:
    """What came into one topic."""

    __slots__ = ("bytes", "kind", "messages", "messages_meter", "size_meter")

    def __init__(self, messages: Counter, size: Counter, kind: TopicKind) -> None:
        self.messages = messages
        self.bytes = size
        self.kind = kind
        self.messages_meter = Meter()
        self.size_meter = Meter()


class GroupMetrics:
    """What one group read of one topic."""

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
        """Log bytes between what it read last and the end."""


class Totals(Generic[Key]):
    """Messages of all keys by whose they are; they never fall, whatever is deleted."""

    __slots__ = ("_counted", "_forgotten", "_others")

    def __init__(self, counted: Mapping[Key, "TopicMetrics | GroupMetrics"]) -> None:
        self._counted = counted
        self._others: dict[Key, TopicMetrics | GroupMetrics] = {}
        """Those of no user's topic: few, so that a sum over ten thousand topics looks at a kind only here."""
        self._forgotten = [0, 0, 0]

    def add(self, key: Key, counts: "TopicMetrics | GroupMetrics") -> None:
        """Know of a key that is counted from now on."""
        if counts.kind is not TopicKind.USER:
            self._others[key] = counts

    def forget(self, key: Key, counts: "TopicMetrics | GroupMetrics") -> None:
        """Keep the count of a key that is not counted any more."""
        self._others.pop(key, None)
        self._forgotten[counts.kind] += int(counts.messages.value)

    def sums(self) -> Sums:
        """Return how many messages were counted since the start."""
        by_kind = [*self._forgotten]
        for counts in self._others.values():
            by_kind[counts.kind] += int(counts.messages.value)
        others = by_kind[TopicKind.SYSTEM] + by_kind[TopicKind.INTERNAL] - sum(self._forgotten[1:])
        users = by_kind[TopicKind.USER] - others
        users += int(sum([counts.messages.value for counts in self._counted.values()]))
        return Sums(shown=users + by_kind[TopicKind.SYSTEM], users=users)
