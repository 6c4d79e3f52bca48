"""A request as the tables of rights read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Asked:
    """The names and the body of a request."""

    fields: Mapping[str, str]
    """Remoting: all ext fields. HTTP: decoded parameters of the query, replaced by those of the path where both have a name."""
    body: bytes
    cluster: str
    """The cluster of the process that answers. A request cannot choose another one by naming it."""
