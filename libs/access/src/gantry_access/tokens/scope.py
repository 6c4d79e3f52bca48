"""What a token may be used for. A scope narrows the rights of the token's user and never adds one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gantry_access.model import Action, Need, ResourceType


@dataclass(frozen=True, slots=True)
class ScopeEntry:
    """Some actions on a resource by name, on a prefix (`orders*`), or on all (`*`)."""

    resource_type: ResourceType
    name: str
    actions: frozenset[Action]

    def covers(self, need: Need) -> bool:
        """Return whether the entry allows one of the needed actions."""
        if self.resource_type not in (need.resource_type, ResourceType.ANY):
            return False
        if Action.ALL not in self.actions and not self.actions & need.actions:
            return False
        if self.name.endswith("*"):
            return need.name.startswith(self.name[:-1])
        return need.name == self.name


def is_in_scope(scope: Iterable[ScopeEntry], needs: Iterable[Need]) -> bool:
    """Return whether the scope covers every need. The user's own policies are evaluated as well."""
    entries = tuple(scope)
    return all(any(entry.covers(need) for entry in entries) for need in needs)
