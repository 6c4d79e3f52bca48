"""What a request requires: a list that is never empty, and of which every element must be met.

Besides `Need`, which policies decide, there are four kinds. An evaluation refuses a kind that it does not know.
"""

from __future__ import annotations

from dataclasses import dataclass

from gantry_access.model import Action, Need, ResourceType
from gantry_access.rights.errors import NO_GROUP, NO_TOPIC, RightsRefused
from gantry_wire.names import DLQ_PREFIX, GANTRY_SYSTEM_PREFIX, RETRY_PREFIX

EVERY = "*"
"""The name in a need that covers all resources of a type. Only a policy for all of them matches it."""

CREATE, DELETE, GET, LIST = (
    frozenset({one}) for one in (Action.CREATE, Action.DELETE, Action.GET, Action.LIST)
)
PUB, SUB, UPDATE = (frozenset({one}) for one in (Action.PUB, Action.SUB, Action.UPDATE))
SUB_OR_GET, SUB_OR_UPDATE = SUB | GET, SUB | UPDATE
PUB_OR_GET, PUB_SUB_OR_GET = PUB | GET, PUB | SUB | GET


@dataclass(frozen=True, slots=True)
class Inner:
    """Only Gantry's own services send this."""


@dataclass(frozen=True, slots=True)
class AnyUser:
    """Any enabled user may send this."""


@dataclass(frozen=True, slots=True)
class Open:
    """Needs no user."""


@dataclass(frozen=True, slots=True)
class OfRecord:
    """A right on the topic of a record that the request identifies without naming its topic.

    The part that reads the record checks `on(topic)` before it acts. One that cannot checks `everywhere()` before it starts.
    """

    actions: frozenset[Action]

    def on(self, topic: str) -> Need:
        """Return the need once the topic is known."""
        return topic_need(topic, self.actions, self.actions)

    def everywhere(self) -> Need:
        """Return the need for all topics."""
        return Need(ResourceType.TOPIC, EVERY, self.actions)


Requirement = Need | Inner | AnyUser | Open | OfRecord


def is_missing(name: str | None) -> bool:
    """Return whether a name is absent or blank."""
    return not name or name.isspace()


def is_retry(topic: str) -> bool:
    """Return whether a topic holds a group's messages for redelivery."""
    return topic.startswith(RETRY_PREFIX)


def is_own(topic: str) -> bool:
    """Return whether only Gantry's services use a topic."""
    return topic.startswith(GANTRY_SYSTEM_PREFIX)


def topic_need(topic: str | None, actions: frozenset[Action], on_retry: frozenset[Action]) -> Need:
    """Return the need for a topic: `on_retry` for the group if it is a retry topic. Raises RightsRefused if the name is missing."""
    if topic is None or is_missing(topic):
        raise RightsRefused(NO_TOPIC)
    if is_retry(topic):
        return group_need(topic, on_retry)
    return Need(ResourceType.TOPIC, topic, actions)


def group_need(group: str | None, actions: frozenset[Action]) -> Need:
    """Return the need for a group, also given by its retry or dead letter topic. Raises RightsRefused if the name is missing."""
    name = (group or "").removeprefix(RETRY_PREFIX).removeprefix(DLQ_PREFIX)
    if is_missing(name):
        raise RightsRefused(NO_GROUP)
    return Need(ResourceType.GROUP, name, actions)


def every_topic(actions: frozenset[Action]) -> Need:
    """Return the need for all topics."""
    return Need(ResourceType.TOPIC, EVERY, actions)


def every_group(actions: frozenset[Action]) -> Need:
    """Return the need for all groups."""
    return Need(ResourceType.GROUP, EVERY, actions)
