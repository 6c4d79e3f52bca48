"""What a token may be used for. A scope narrows the rights of the token's user and never adds one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gantry_access.model.actions import Action
from gantry_access.model.needs import AnyUser, Need, OfRecord, Open, Requirement
from gantry_access.model.resources import Resource


@dataclass(frozen=True, slots=True)
class ScopeEntry:
    """Some actions on a resource; All for every action."""

    resource: Resource
    actions: Action

    def covers(self, need: Need) -> bool:
        """Return whether the entry allows one of the needed actions."""
        return bool(self.actions.permitted & need.actions) and self.resource.covers(need.resource)


def is_in_scope(scope: Iterable[ScopeEntry], requirements: Iterable[Requirement]) -> bool:
    """Return whether a scope covers every requirement; ask the policies of the user as well.

    No scope covers what only Gantry's services send, or a kind that is not known. Without its topic, a record is in every topic.
    """
    entries = tuple(scope)
    return all(_covers(entries, one) for one in requirements)


def is_within(inner: Iterable[ScopeEntry], outer: Iterable[ScopeEntry]) -> bool:
    """Return whether a scope allows nothing that another one does not allow."""
    entries = tuple(outer)
    return all(
        any(entry.covers(Need(one.resource, action)) for entry in entries)
        for one in inner
        for action in Action(one.actions.permitted)
    )


def _covers(entries: tuple[ScopeEntry, ...], required: Requirement) -> bool:
    if isinstance(required, OfRecord):
        required = required.everywhere
    if isinstance(required, Need):
        return any(entry.covers(required) for entry in entries)
    return isinstance(required, (AnyUser, Open))
