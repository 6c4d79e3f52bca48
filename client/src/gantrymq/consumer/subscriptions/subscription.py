"""A group's subscription to a topic, as sent to brokers and as checked again here. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gantry_wire.bodies.clients import SubscriptionData
from gantry_wire.messages.properties import tags_code
from gantry_wire.names import RETRY_PREFIX
from gantry_wire.subscription import SQL92, SUBSCRIBE_ALL, TAG, TagFilter
from gantrymq.message import ReceivedMessage


@dataclass(slots=True, frozen=True)
class Subscription:
    """A topic and the expression that selects its messages: `*`, tags joined by `||`, or an SQL92 condition."""

    topic: str
    expression: str = SUBSCRIBE_ALL
    kind: str = TAG
    version: int = 0
    """Milliseconds of its creation: of two, brokers use the newer."""
    tags: frozenset[str] = field(init=False, default=frozenset())
    """The wanted tags; empty if tags do not matter."""

    def __post_init__(self) -> None:
        if self.kind not in (TAG, SQL92):
            raise ValueError(f"{self.kind!r} is not a kind of expression: use TAG or SQL92")
        if self.kind == TAG:  # raises MalformedExpression if it names no tag
            object.__setattr__(self, "tags", TagFilter.parse(self.expression).names)

    def after(self, earlier: Subscription | None) -> Subscription:
        """Return it newer than an earlier one, even if the clock was set back meanwhile: brokers use the newer."""
        if earlier is None or earlier.version < self.version:
            return self
        return replace(self, version=earlier.version + 1)

    def data(self) -> SubscriptionData:
        """Return it in the form of a heartbeat."""
        tags = sorted(self.tags)
        return SubscriptionData(
            topic=self.topic,
            sub_string=self.expression,
            sub_version=self.version,
            expression_type=self.kind,
            tags_set=tags,
            code_set=[tags_code(tag) for tag in tags],
        )

    def is_wanted(self, message: ReceivedMessage) -> bool:
        """Whether the message has one of the tags: brokers compare only hashes."""
        return not self.tags or message.tag in self.tags


def describe_conflicts(mine: Mapping[str, Subscription], theirs: Mapping[str, SubscriptionData]) -> list[str]:
    """Return the differences between a group's members as text; empty if they agree.

    RocketMQ keeps one table of subscriptions per group, so members with different ones lose messages to each other.
    """
    ours = {topic for topic in mine if not topic.startswith(RETRY_PREFIX)}
    others = {topic for topic in theirs if not topic.startswith(RETRY_PREFIX)}
    conflicts: list[str] = []
    for topic in sorted(ours & others):
        if not _agree(mine[topic], theirs[topic]):
            other = theirs[topic]
            conflicts.append(
                f"this member subscribes {_words(topic, mine[topic].kind, mine[topic].expression)}, "
                f"another one {_words(topic, other.expression_type, other.sub_string)}"
            )
    if not conflicts and ours != others:
        conflicts.append(f"this member subscribes {_names(ours)}, another one {_names(others)}")
    return conflicts


def _agree(mine: Subscription, other: SubscriptionData) -> bool:
    if mine.kind != (other.expression_type or TAG):
        return False
    if mine.kind == SQL92:
        return mine.expression == other.sub_string
    return mine.tags == TagFilter.parse(other.sub_string).names


def _words(topic: str, kind: str, expression: str) -> str:
    return f"{topic!r} with {'SQL92 ' if kind == SQL92 else ''}{expression!r}"


def _names(topics: set[str]) -> str:
    return ", ".join(sorted(topics)) or "nothing"
