"""What a request needs. Made from a request by its code; known to the evaluation."""

from __future__ import annotations

from typing import NamedTuple

from gantry_access.model.actions import Action
from gantry_access.model.resources import Resource


class Need(NamedTuple):
    """A request needs one of these actions on this resource. A request with several needs must have all of them."""

    resource: Resource
    """One resource, or `Type:*` to see all of them: then only entries that cover all of them count."""
    actions: Action
    """Alternatives."""
