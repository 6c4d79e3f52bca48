"""Policies of a subject. Unlike RocketMQ, a resource may have several entries: "Allow Sub, Deny Pub", or one per network.

The order in which entries were given is not kept: it never decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

from gantry_access.errors import IllegalPolicy
from gantry_access.limits import ENTRIES_PER_SUBJECT_MAX, NETWORKS_PER_ENTRY_MAX
from gantry_access.model.actions import Action
from gantry_access.model.networks import SourceNetwork
from gantry_access.model.resources import Resource
from gantry_access.model.users import Subject


class Decision(Enum):
    """What an entry says about the actions that it names."""

    ALLOW = "Allow"
    DENY = "Deny"


class PolicyType(Enum):
    """Default entries count only for what no Custom entry matches."""

    CUSTOM = "Custom"
    DEFAULT = "Default"


@dataclass(slots=True, frozen=True)
class PolicyEntry:
    """A decision about some actions on a resource, from everywhere or from some networks. Raises IllegalPolicy."""

    resource: Resource
    actions: Action
    decision: Decision
    networks: tuple[SourceNetwork, ...] = ()
    """Source networks, sorted; empty: from everywhere."""

    def __post_init__(self) -> None:
        if not self.actions:
            raise IllegalPolicy(f"the policy on {self.resource.text} names no action")
        if len(self.networks) > NETWORKS_PER_ENTRY_MAX:
            raise IllegalPolicy(
                f"the policy on {self.resource.text} has {len(self.networks)} networks, the limit is {NETWORKS_PER_ENTRY_MAX}"
            )
        if self.networks:
            object.__setattr__(self, "networks", tuple(sorted(set(self.networks))))

    @property
    def text(self) -> str:
        """The entry in words, with a canonical order of its parts."""
        actions = ", ".join(self.actions.names)
        source = " from " + ", ".join(network.text for network in self.networks) if self.networks else ""
        return f"{self.decision.value} {actions} on {self.resource.text}{source}"


@dataclass(slots=True, frozen=True)
class SubjectPolicies:
    """All entries of one subject, sorted and each once. Raises IllegalPolicy for too many."""

    subject: Subject
    custom: tuple[PolicyEntry, ...] = ()
    default: tuple[PolicyEntry, ...] = ()

    def __post_init__(self) -> None:
        count = len(self.custom) + len(self.default)
        if count > ENTRIES_PER_SUBJECT_MAX:
            raise IllegalPolicy(
                f"{self.subject.text} has {count} policy entries, the limit is {ENTRIES_PER_SUBJECT_MAX}"
            )
        object.__setattr__(self, "custom", _sorted(self.custom))
        object.__setattr__(self, "default", _sorted(self.default))

    def of(self, kind: PolicyType) -> tuple[PolicyEntry, ...]:
        """Return the entries of one type."""
        return self.custom if kind is PolicyType.CUSTOM else self.default

    def replacing(self, changed: SubjectPolicies) -> SubjectPolicies:
        """Return these policies with the entries of each changed resource replaced, as RocketMQ's create and update do."""
        kept = {
            kind: _without({entry.resource for entry in changed.of(kind)}, self.of(kind))
            for kind in PolicyType
        }
        return replace(
            self,
            custom=(*kept[PolicyType.CUSTOM], *changed.custom),
            default=(*kept[PolicyType.DEFAULT], *changed.default),
        )

    def without(self, kind: PolicyType, resource: Resource) -> SubjectPolicies:
        """Return these policies without the entries of one type on one resource."""
        kept = _without({resource}, self.of(kind))
        return replace(self, custom=kept) if kind is PolicyType.CUSTOM else replace(self, default=kept)


def _without(resources: set[Resource], entries: Iterable[PolicyEntry]) -> tuple[PolicyEntry, ...]:
    return tuple(entry for entry in entries if entry.resource not in resources)


def _sorted(entries: Iterable[PolicyEntry]) -> tuple[PolicyEntry, ...]:
    return tuple(sorted(set(entries), key=_order))


def _order(entry: PolicyEntry) -> tuple[str, bool, str, int, tuple[SourceNetwork, ...]]:
    resource = entry.resource
    return (resource.key, resource.is_prefix, entry.decision.value, int(entry.actions), entry.networks)
