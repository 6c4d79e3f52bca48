"""Resources, in RocketMQ's text forms: `*`, `Type:*`, `Type:prefix*`, `Type:name`.

The first three are prefixes of the text of what they cover: `*` of every text, `Topic:*` of every text that begins with `Topic:`.
So a resource is a text and whether it is a prefix, and of two that cover a name, the more specific one is the literal, then the longer.
Names are those on the wire (`namespace%topic`).
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from gantry_access.errors import MalformedResource
from gantry_access.limits import RESOURCE_NAME_CHARACTERS_MAX
from gantry_wire.names import DLQ_PREFIX, RETRY_PREFIX

WILDCARD = "*"


class ResourceType(Enum):
    """Kinds of resources. No request of RocketMQ needs a Namespace, so policies about one never decide."""

    CLUSTER = "Cluster"
    NAMESPACE = "Namespace"
    TOPIC = "Topic"
    GROUP = "Group"


class Resource(NamedTuple):
    """One resource, or all whose text begins with `key`. Make one with `parse`, `topic`, `group` or `cluster`."""

    key: str
    """`Type:name` for a literal; else the text without its `*`."""
    is_prefix: bool

    @classmethod
    def parse(cls, text: str) -> Resource:
        """Return the resource of a text; the type may be in any case. Raises MalformedResource.

        Differs from RocketMQ where that would widen a policy in silence: a `*` inside a name is refused, not cut there,
        and so is `Group:%RETRY%*`, which would stand for all groups.
        """
        if text == WILDCARD:
            return EVERYTHING
        type_name, colon, name = text.partition(":")
        found = _TYPES.get(type_name.lower())
        if found is None or not colon:
            raise MalformedResource(
                f"the resource {text[:64]!r} is neither * nor Type:name with Cluster, Namespace, Topic or Group"
            )
        is_prefix = name.endswith(WILDCARD)
        name = name.removesuffix(WILDCARD)
        group = _group_of(name) if found is ResourceType.GROUP else name
        if name and not group:
            raise MalformedResource(f"the resource {text[:64]!r} names no group")
        return cls._of(f"{found.value}:", group, is_prefix)

    @classmethod
    def topic(cls, name: str) -> Resource:
        """Return one topic. Raises MalformedResource."""
        return cls._of("Topic:", name, False)

    @classmethod
    def group(cls, name: str) -> Resource:
        """Return one group; the group g if the name is its `%RETRY%g` or `%DLQ%g`. Raises MalformedResource."""
        return cls._of("Group:", _group_of(name), False)

    @classmethod
    def cluster(cls, name: str) -> Resource:
        """Return one cluster. Raises MalformedResource."""
        return cls._of("Cluster:", name, False)

    @classmethod
    def every(cls, kind: ResourceType) -> Resource:
        """Return all resources of a type (`Type:*`)."""
        return cls(f"{kind.value}:", True)

    @classmethod
    def _of(cls, kind: str, name: str, is_prefix: bool) -> Resource:
        key = kind + name
        if not name and not is_prefix:
            raise MalformedResource(f"the resource {key!r} has no name")
        if len(name) > RESOURCE_NAME_CHARACTERS_MAX:
            raise MalformedResource(
                f"the resource {key[:64]!r}… has a name of {len(name)} characters, the limit is {RESOURCE_NAME_CHARACTERS_MAX}"
            )
        if WILDCARD in name or not name.isprintable():
            raise MalformedResource(
                f"the name of the resource {key!r} has a * before its end, or a control character"
            )
        return cls(key, is_prefix)

    def covers(self, other: Resource) -> bool:
        """Return whether this resource is the other one, or all of the other one is among what it stands for."""
        return other.key.startswith(self.key) if self.is_prefix else self == other

    @property
    def text(self) -> str:
        """RocketMQ's text form; `parse` reads it."""
        return self.key + WILDCARD if self.is_prefix else self.key


EVERYTHING = Resource("", True)
"""`*`: every resource of every type."""

_TYPES = {kind.value.lower(): kind for kind in ResourceType}


def _group_of(name: str) -> str:
    """Return the group to which a retry or dead-letter name belongs, or the name itself."""
    while name.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        name = name.removeprefix(RETRY_PREFIX).removeprefix(DLQ_PREFIX)
    return name
