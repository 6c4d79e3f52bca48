"""Rules that a row of a table is made of. Each returns its requirements and describes itself for the documentation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gantry_access.model import Action, Need, ResourceType
from gantry_access.rights.asked import Asked
from gantry_access.rights.requirements import (
    AnyUser,
    Inner,
    OfRecord,
    Open,
    Requirement,
    every_group,
    every_topic,
    group_need,
    is_missing,
    is_own,
    topic_need,
)


class Rule(Protocol):
    """One rule."""

    @property
    def text(self) -> str:
        """The rule in words."""
        ...

    def __call__(self, asked: Asked, /) -> Iterable[Requirement]:
        """Return the requirements of a request. Raises RightsRefused, or MalformedBody for a body that cannot be read."""
        ...


def actions_text(actions: frozenset[Action]) -> str:
    """Return actions as alternatives."""
    return "/".join(action.name.capitalize() for action in Action if action in actions)


@dataclass(frozen=True, slots=True)
class Topic:
    """A right on the topic of a field. A topic of Gantry's own is for its services."""

    name: str
    actions: frozenset[Action]
    on_retry: frozenset[Action] | None = None
    """On the group of a retry topic; None for the same actions."""
    is_optional: bool = False

    @property
    def text(self) -> str:
        """The rule in words."""
        words = f"Topic {actions_text(self.actions)} (`{self.name}`)"
        if self.on_retry is not None and self.on_retry != self.actions:
            words += f", of a retry topic Group {actions_text(self.on_retry)}"
        return f"{words}, if given" if self.is_optional else words

    def __call__(self, asked: Asked) -> Iterable[Requirement]:
        """Return the need for the topic."""
        topic = asked.fields.get(self.name)
        if topic is None or is_missing(topic):
            return () if self.is_optional else (topic_need(topic, self.actions, self.actions),)
        if is_own(topic):
            return (Inner(),)
        return (topic_need(topic, self.actions, self.on_retry or self.actions),)


@dataclass(frozen=True, slots=True)
class TopicOrRecord:
    """A right on the topic of a field; without it, on the topic of the record."""

    name: str
    actions: frozenset[Action]

    @property
    def text(self) -> str:
        """The rule in words."""
        return f"Topic {actions_text(self.actions)} (`{self.name}`; without it the record's topic)"

    def __call__(self, asked: Asked) -> Iterable[Requirement]:
        """Return the need for the topic, or for the record's."""
        topic = asked.fields.get(self.name)
        if topic is None or is_missing(topic):
            return (OfRecord(self.actions),)
        return (topic_need(topic, self.actions, self.actions),)


@dataclass(frozen=True, slots=True)
class TopicOrEvery:
    """A right on the topic of a field; without it, on all topics."""

    name: str
    actions: frozenset[Action]

    @property
    def text(self) -> str:
        """The rule in words."""
        return f"Topic {actions_text(self.actions)} (`{self.name}`; without it all topics)"

    def __call__(self, asked: Asked) -> Iterable[Requirement]:
        """Return the need for the topic, or for all."""
        topic = asked.fields.get(self.name)
        if topic is None or is_missing(topic):
            return (every_topic(self.actions),)
        return (topic_need(topic, self.actions, self.actions),)


@dataclass(frozen=True, slots=True)
class Group:
    """A right on the group of a field."""

    name: str
    actions: frozenset[Action]
    is_optional: bool = False

    @property
    def text(self) -> str:
        """The rule in words."""
        words = f"Group {actions_text(self.actions)} (`{self.name}`)"
        return f"{words}, if given" if self.is_optional else words

    def __call__(self, asked: Asked) -> Iterable[Requirement]:
        """Return the need for the group."""
        group = asked.fields.get(self.name)
        if self.is_optional and is_missing(group):
            return ()
        return (group_need(group, self.actions),)


@dataclass(frozen=True, slots=True)
class Names:
    """A right on each name of a field that holds a list."""

    name: str
    separator: str
    actions: frozenset[Action]
    resource_type: ResourceType

    @property
    def text(self) -> str:
        """The rule in words."""
        return f"{self.resource_type.name.capitalize()} {actions_text(self.actions)} of each in `{self.name}`"

    def __call__(self, asked: Asked) -> Iterable[Requirement]:
        """Return the needs for the names."""
        names = [
            name for name in asked.fields.get(self.name, "").split(self.separator) if not is_missing(name)
        ]
        if self.resource_type is ResourceType.TOPIC:
            return [topic_need(name, self.actions, self.actions) for name in names]
        return [group_need(name, self.actions) for name in names]


@dataclass(frozen=True, slots=True)
class Cluster:
    """A right on the cluster of the process, or on the one that a nameserver's request is about."""

    actions: frozenset[Action]
    name: str = ""
    """The field with the cluster, for nameservers, which serve several."""

    @property
    def text(self) -> str:
        """The rule in words."""
        named = f" (`{self.name}`)" if self.name else ""
        return f"Cluster {actions_text(self.actions)}{named}"

    def __call__(self, asked: Asked) -> Iterable[Requirement]:
        """Return the need for the cluster."""
        named = asked.fields.get(self.name, "") if self.name else ""
        return (Need(ResourceType.CLUSTER, asked.cluster if is_missing(named) else named, self.actions),)


@dataclass(frozen=True, slots=True)
class Every:
    """A right on all topics, or on all groups."""

    resource_type: ResourceType
    actions: frozenset[Action]

    @property
    def text(self) -> str:
        """The rule in words."""
        return f"{self.resource_type.name.capitalize()} {actions_text(self.actions)} of all"

    def __call__(self, _asked: Asked) -> Iterable[Requirement]:
        """Return the need."""
        is_topic = self.resource_type is ResourceType.TOPIC
        return (every_topic(self.actions) if is_topic else every_group(self.actions),)


@dataclass(frozen=True, slots=True)
class Fixed:
    """A requirement without a name."""

    requirement: Inner | AnyUser | Open | OfRecord
    text: str

    def __call__(self, _asked: Asked) -> Iterable[Requirement]:
        """Return the requirement."""
        return (self.requirement,)


@dataclass(frozen=True, slots=True)
class Read:
    """Requirements that a function of the fields and the decoded body finds."""

    text: str
    read: Callable[[Asked], Iterable[Requirement]] = field(repr=False)

    def __call__(self, asked: Asked) -> Iterable[Requirement]:
        """Return them."""
        return self.read(asked)


@dataclass(frozen=True, slots=True)
class Row:
    """All rules of one request."""

    rules: Sequence[Rule]

    @property
    def text(self) -> str:
        """The rules in words."""
        return "; ".join(rule.text for rule in self.rules)

    def requirements(self, asked: Asked) -> tuple[Requirement, ...]:
        """Return what a request requires; any user if nothing more. Raises as the rules do."""
        found = [one for rule in self.rules for one in rule(asked)]
        return tuple(dict.fromkeys(found)) or (AnyUser(),)


def row(*rules: Rule) -> Row:
    """Return the row of these rules."""
    return Row(rules)


INNER = row(Fixed(Inner(), "only Gantry's services"))
ANY_USER = row(Fixed(AnyUser(), "any user"))
OPEN = row(Fixed(Open(), "open"))


def of_record(actions: frozenset[Action]) -> Fixed:
    """Return the rule for the topic of the record that a request identifies."""
    return Fixed(OfRecord(actions), f"Topic {actions_text(actions)} (the record's topic)")
