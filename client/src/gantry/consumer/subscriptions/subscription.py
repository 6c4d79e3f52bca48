"""What a group wants of each topic, as brokers are told and as messages are checked again here. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gantry.message import ReceivedMessage
from gantry_wire.client_bodies import SubscriptionData
from gantry_wire.names import RETRY_PREFIX
from gantry_wire.properties import tags_code
from gantry_wire.subscription import SQL92, SUBSCRIBE_ALL, TAG, TagFilter


@dataclass(slots=True, frozen=True)
class Subscription:
    """A topic and the expression that selects its messages: `*`, tags joined by `||`, or an SQL92 condition."""

    topic: str
    expression: str = SUBSCRIBE_ALL
    kind: str = TAG
    version: int = 0
    """Milliseconds of the time it was made: of two, brokers believe the younger."""
    tags: frozenset[str] = field(init=False, default=frozenset())
    """The wanted tags; empty when tags do not matter."""

    def __post_init__(self) -> None:
        if self.kind not in (TAG, SQL92):
            raise ValueError(f"{self.kind!r} is no kind of expression: use TAG or SQL92")
        if self.kind == TAG:  # MalformedExpression for one that names no tag
            object.__setattr__(self, "tags", TagFilter.parse(self.expression).names)

    def after(self, earlier: Subscription | None) -> Subscription:
        """Return it as younger than an earlier one, also where the clock was set back meanwhile: brokers believe the younger."""
        if earlier is None or earlier.version < self.version:
            return self
        return replace(self, version=earlier.version + 1)

    def data(self) -> SubscriptionData:
        """Return it as heartbeats carry it."""
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
        """Whether the tag is really one of ours: brokers compare hashes only."""
        return not self.tags or message.tag in self.tags


def describe_conflicts(mine: Mapping[str, Subscription], theirs: Mapping[str, SubscriptionData]) -> list[str]:
    """Return in words where a group's members want different things; empty when they agree.

    RocketMQ keeps one table of subscriptions for a whole group, so members that differ take each other's messages away.
    """
    ours = {topic for topic in mine if not topic.startswith(RETRY_PREFIX)}
    others = {topic for topic in theirs if not topic.startswith(RETRY_PREFIX)}
    conflicts: list[str] = []
    for topic in sorted(ours & others):
        if not _agree(mine[topic], theirs[topic]):
            other = theirs[topic]
            conflicts.append(
                f"this member wants {_words(topic, mine[topic].kind, mine[topic].expression)}, "
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
