"""Rules that a row of a table is made of. Each returns its requirements and describes itself for the documentation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import ClassVar, Protocol

from gantry_access.limits import NEEDS_PER_REQUEST_MAX
from gantry_access.model.actions import Action
from gantry_access.model.needs import AnyUser, Inner, Need, OfRecord, Open, Requirement
from gantry_access.model.resources import Resource, ResourceType
from gantry_access.rights.asked import Asked
from gantry_access.rights.errors import RightsRefused
from gantry_access.rights.requirements import cluster_need, group_need, is_missing, topic_need
from gantry_wire.messages.properties import TIMER_DEL_UNIQKEY, parse_properties

TOO_MANY_NAMES = f"the request names more than {NEEDS_PER_REQUEST_MAX} topics and groups: send several."


class Rule(Protocol):
    """One rule."""

    @property
    def text(self) -> str:
        """The rule in words."""
        ...

    def __call__(self, asked: Asked, /) -> Iterable[Requirement]:
        """Return the requirements of a request. Raises RightsRefused, or MalformedBody for a body that cannot be read."""
        ...


def actions_text(actions: Action) -> str:
    """Return actions as alternatives."""
    return "/".join(actions.names)


@dataclass(frozen=True, slots=True)
class Topic:
    """A right on the topic of a field. A topic of Gantry's own is for its services."""

    name: str
    actions: Action
    on_retry: Action | None = None
    """On the group of a retry topic; None for the same actions."""
    is_optional: bool = False
    any_user_of: str | None = None
    """A topic for which any user may send the request."""

    @property
    def text(self) -> str:
        """The rule in words."""
        words = f"Topic {actions_text(self.actions)} (`{self.name}`)"
        if self.on_retry is not None and self.on_retry != self.actions:
            words += f", of a retry topic Group {actions_text(self.on_retry)}"
        if self.any_user_of is not None:
            words += f", of {self.any_user_of} any user"
        return f"{words}, if given" if self.is_optional else words

    def __call__(self, asked: Asked) -> Iterable[Requirement]:
        """Return the need for the topic."""
        topic = asked.fields.get(self.name)
        if topic is None or is_missing(topic):
            return () if self.is_optional else (topic_need(topic, self.actions),)
        if topic == self.any_user_of:
            return (AnyUser(),)
        return (topic_need(topic, self.actions, self.on_retry),)


@dataclass(frozen=True, slots=True)
class TopicAndRecord:
    """A right on the topic of the record that a request identifies, and on that of a field, if given.

    The named topic alone would not do: the record need not be in it.
    """

    name: str
    actions: Action

    @property
    def text(self) -> str:
        """The rule in words."""
        return f"Topic {actions_text(self.actions)} (the record's topic; `{self.name}`, if given)"

    def __call__(self, asked: Asked) -> Iterable[Requirement]:
        """Return the need for the record's topic, after the one for the named topic."""
        topic = asked.fields.get(self.name)
        if topic is None or is_missing(topic):
            return (OfRecord(self.actions),)
        return topic_need(topic, self.actions), OfRecord(self.actions)


@dataclass(frozen=True, slots=True)
class TopicOrEvery:
    """A right on the topic of a field; without it, on all topics."""

    name: str
    actions: Action

    @property
    def text(self) -> str:
        """The rule in words."""
        return f"Topic {actions_text(self.actions)} (`{self.name}`; without it all topics)"

    def __call__(self, asked: Asked) -> Iterable[Requirement]:
        """Return the need for the topic, or for all."""
        topic = asked.fields.get(self.name)
        if topic is None or is_missing(topic):
            return (Need(Resource.every(ResourceType.TOPIC), self.actions),)
        return (topic_need(topic, self.actions),)


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A right on the topic whose timed message a send cancels, if its properties do; on all topics if they name none.

    The topic of the send need not be that topic.
    """

    name: str
    """The field with the properties."""
    actions: Action
    mark: ClassVar[str] = TIMER_DEL_UNIQKEY
    """A field without this text cancels nothing."""

    @property
    def text(self) -> str:
        """The rule in words."""
        return (
            f"Topic {actions_text(self.actions)} of the message that `{TIMER_DEL_UNIQKEY}` cancels, if given"
        )

    def __call__(self, asked: Asked) -> Iterable[Requirement]:
        """Return the need for the topic."""
        properties = asked.fields.get(self.name, "")
        cancelled = parse_properties(properties).get(TIMER_DEL_UNIQKEY) if self.mark in properties else None
        if cancelled is None:
            return ()
        topic, has_topic, _ = cancelled.rpartition("+")
        if not has_topic:
            return (Need(Resource.every(ResourceType.TOPIC), self.actions),)
        return (topic_need(topic, self.actions),)


@dataclass(frozen=True, slots=True)
class Group:
    """A right on the group of a field."""

    name: str
    actions: Action
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
    actions: Action
    resource_type: ResourceType

    @property
    def text(self) -> str:
        """The rule in words."""
        return f"{self.resource_type.value} {actions_text(self.actions)} of each in `{self.name}`"

    def __call__(self, asked: Asked) -> Iterable[Requirement]:
        """Return the needs for the names."""
        need = topic_need if self.resource_type is ResourceType.TOPIC else group_need
        names = asked.fields.get(self.name, "").split(self.separator)
        return (need(name, self.actions) for name in names if not is_missing(name))


@dataclass(frozen=True, slots=True)
class Cluster:
    """A right on the cluster of the process, or on the one that a nameserver's request is about."""

    actions: Action
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
        return (cluster_need(asked.cluster if is_missing(named) else named, self.actions),)


@dataclass(frozen=True, slots=True)
class Every:
    """A right on all topics, or on all groups."""

    resource_type: ResourceType
    actions: Action

    @property
    def text(self) -> str:
        """The rule in words."""
        return f"{self.resource_type.value} {actions_text(self.actions)} of all"

    def __call__(self, _asked: Asked) -> Iterable[Requirement]:
        """Return the need."""
        return (Need(Resource.every(self.resource_type), self.actions),)


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

    @property
    def fields_read(self) -> tuple[str, ...] | None:
        """The fields whose values alone make the requirements of a process; None if the body or other fields do, too.

        Where the field of `cancels` has its mark, that field counts, too.
        """
        names: list[str] = []
        for rule in self.rules:
            match rule:
                case Topic() | TopicAndRecord() | TopicOrEvery() | Group() | Names():
                    names.append(rule.name)
                case Cluster():
                    names += [rule.name] if rule.name else []
                case Every() | Fixed() | Cancelled():
                    pass
                case _:
                    return None
        return tuple(names)

    @property
    def cancels(self) -> Cancelled | None:
        """The rule about a message that the request may cancel."""
        return next((rule for rule in self.rules if isinstance(rule, Cancelled)), None)

    @property
    def is_of_record(self) -> bool:
        """Whether a requirement may be about the topic of a record."""
        return any(
            isinstance(rule, TopicAndRecord)
            or (isinstance(rule, Fixed) and isinstance(rule.requirement, OfRecord))
            for rule in self.rules
        )

    @property
    def is_open(self) -> bool:
        """Whether the request needs no user, whatever it names."""
        return bool(self.rules) and all(
            isinstance(rule, Fixed) and isinstance(rule.requirement, Open) for rule in self.rules
        )

    def requirements(self, asked: Asked) -> tuple[Requirement, ...]:
        """Return what a request requires; any user if nothing more. Raises as the rules do, and RightsRefused for too many names."""
        found: list[Requirement] = []
        for rule in self.rules:
            found += islice(rule(asked), NEEDS_PER_REQUEST_MAX + 1)
            if len(found) > NEEDS_PER_REQUEST_MAX:
                raise RightsRefused(TOO_MANY_NAMES)
        return tuple(dict.fromkeys(found)) or (AnyUser(),)


def row(*rules: Rule) -> Row:
    """Return the row of these rules."""
    return Row(rules)


INNER = row(Fixed(Inner(), "only Gantry's services"))
ANY_USER = row(Fixed(AnyUser(), "any user"))
OPEN = row(Fixed(Open(), "open"))


def of_record(actions: Action) -> Fixed:
    """Return the rule for the topic of the record that a request identifies."""
    return Fixed(OfRecord(actions), f"Topic {actions_text(actions)} (the record's topic)")
