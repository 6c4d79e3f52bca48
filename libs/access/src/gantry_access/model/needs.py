"""What a request requires: a list that is never empty, and of which every element must be met. Made from a request by its code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from gantry_access.model.actions import Action
from gantry_access.model.resources import Resource, ResourceType
from gantry_wire.names import (
    GANTRY_SYSTEM_PREFIX,
    HALF_TOPIC,
    OP_HALF_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
)

ACCESS_TOPIC = f"{GANTRY_SYSTEM_PREFIX}ACCESS"
"""Holds the users, policies and tokens of a cluster."""
TOPICS_OF_ALL = frozenset(
    {SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC, OP_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC}
)
"""System topics that hold delayed and half messages of every topic."""


class Need(NamedTuple):
    """A request needs one of these actions on this resource. Policies decide."""

    resource: Resource
    """One resource, or `Type:*` for all of them: each of them must be allowed."""
    actions: Action
    """Alternatives."""


@dataclass(frozen=True, slots=True)
class Inner:
    """Only Gantry's own services may send this: users of type Inner."""

    is_about_access: bool = False
    """Whether it is about the records of users, policies and tokens."""


@dataclass(frozen=True, slots=True)
class AnyUser:
    """Any enabled user may send this."""


@dataclass(frozen=True, slots=True)
class Open:
    """Needs no user."""


@dataclass(frozen=True, slots=True)
class OfRecord:
    """A right on the topic of a record that the request identifies, whatever topic it names.

    The part that reads the record checks `on(topic)` before it acts or answers. A decision without that topic is about all topics.
    Of a delayed or half message that topic is the one to which it will be delivered, not the system topic that holds it.
    """

    actions: Action

    def on(self, topic: str) -> Need | Inner:
        """Return the requirement once the topic is known. Raises MalformedResource."""
        return topic_requirement(topic, self.actions)

    @property
    def everywhere(self) -> Need:
        """The need for all topics."""
        return Need(Resource.every(ResourceType.TOPIC), self.actions)


Requirement = Need | Inner | AnyUser | Open | OfRecord


def topic_requirement(topic: str, actions: Action, on_retry: Action | None = None) -> Need | Inner:
    """Return the requirement for a topic; a topic of Gantry's own is for its services. Raises MalformedResource.

    A retry topic is a need for its group: of the actions `on_retry`, or of the same ones. A topic that holds messages of all topics is a
    need for all of them.
    """
    if topic.startswith(GANTRY_SYSTEM_PREFIX):
        return Inner(is_about_access=topic == ACCESS_TOPIC)
    if topic.startswith(RETRY_PREFIX):
        return Need(Resource.group(topic), on_retry or actions)
    if topic in TOPICS_OF_ALL:
        return Need(Resource.every(ResourceType.TOPIC), actions)
    return Need(Resource.topic(topic), actions)


def is_open(requirements: Iterable[Requirement]) -> bool:
    """Return whether a request needs no user. Decide before authentication; an empty list is not open."""
    found = tuple(requirements)
    return bool(found) and all(isinstance(one, Open) for one in found)


def is_about_access(requirements: Iterable[Requirement]) -> bool:
    """Return whether a request names the topic that holds users, policies and tokens."""
    return any(isinstance(one, Inner) and one.is_about_access for one in requirements)


def split_of_record(
    requirements: Iterable[Requirement],
) -> tuple[tuple[Requirement, ...], tuple[OfRecord, ...]]:
    """Return what can be decided at the door, and what waits for the topic of the record. The first is never empty."""
    found = tuple(requirements)
    later = tuple(one for one in found if isinstance(one, OfRecord))
    now = tuple(one for one in found if not isinstance(one, OfRecord))
    return (now or (AnyUser(),)) if later else now, later
