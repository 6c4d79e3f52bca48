"""What is counted of one topic, of one group in it, and whose messages these are. Plain numbers; figures.py makes rates of them."""

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

from broker_store.rates import Meter
from gantry_chassis.metrics import Counter


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

    told: int
    """All but Gantry's own."""
    users: int
    """Those of user topics."""


class SentBack:
    """What one group sent back of one topic."""

    __slots__ = ("count", "meter")

    def __init__(self) -> None:
        self.count = 0
        self.meter = Meter()


class TopicFigures:
    """What came into one topic."""

    __slots__ = ("bytes", "kind", "messages", "messages_meter", "size_meter")

    def __init__(self, messages: Counter, size: Counter, kind: TopicKind) -> None:
        self.messages = messages
        self.bytes = size
        self.kind = kind
        self.messages_meter = Meter()
        self.size_meter = Meter()


class GroupFigures:
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


def sums(forgotten: Sequence[int], counted: Iterable[TopicFigures | GroupFigures]) -> Sums:
    """Add up messages by whose they are; `forgotten` are those of what was deleted, by kind."""
    by_kind = [*forgotten]
    for figures in counted:
        by_kind[figures.kind] += int(figures.messages.value)
    users = by_kind[TopicKind.USER]
    return Sums(told=users + by_kind[TopicKind.SYSTEM], users=users)
