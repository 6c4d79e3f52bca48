"""Requirements made from the names of a request. A name that is missing or not legal is refused."""

from __future__ import annotations

from gantry_access.errors import MalformedResource
from gantry_access.model.actions import Action
from gantry_access.model.needs import Inner, Need, topic_requirement
from gantry_access.model.resources import Resource
from gantry_access.rights.errors import RightsRefused
from gantry_access.texts import CONTEXT_UNREADABLE, GROUP_MISSING, TOPIC_MISSING
from gantry_wire.names import DLQ_PREFIX, RETRY_PREFIX

CREATE, DELETE, GET, LIST = Action.CREATE, Action.DELETE, Action.GET, Action.LIST
PUB, SUB, UPDATE = Action.PUB, Action.SUB, Action.UPDATE
SUB_OR_GET, SUB_OR_UPDATE = SUB | GET, SUB | UPDATE
PUB_OR_GET, PUB_SUB_OR_GET = PUB | GET, PUB | SUB | GET


def is_missing(name: str | None) -> bool:
    """Return whether a name is absent or blank."""
    return not name or name.isspace()


def topic_need(topic: str | None, actions: Action, on_retry: Action | None = None) -> Need | Inner:
    """Return the requirement for a topic: `on_retry`, or the same actions, for the group if it is a retry topic. Raises RightsRefused."""
    if topic is None or is_missing(topic):
        raise RightsRefused(TOPIC_MISSING)
    if topic.startswith(RETRY_PREFIX):
        return group_need(topic, on_retry or actions)
    try:
        return topic_requirement(topic, actions)
    except MalformedResource as error:
        raise RightsRefused(CONTEXT_UNREADABLE) from error


def group_need(group: str | None, actions: Action) -> Need:
    """Return the need for a group, also given by its retry or dead letter topic. Raises RightsRefused."""
    if group is None or is_missing(group.replace(RETRY_PREFIX, "").replace(DLQ_PREFIX, "")):
        raise RightsRefused(GROUP_MISSING)
    try:
        return Need(Resource.group(group), actions)
    except MalformedResource as error:
        raise RightsRefused(CONTEXT_UNREADABLE) from error


def cluster_need(cluster: str, actions: Action) -> Need:
    """Return the need for a cluster. Raises RightsRefused."""
    try:
        return Need(Resource.cluster(cluster), actions)
    except MalformedResource as error:
        raise RightsRefused(CONTEXT_UNREADABLE) from error
