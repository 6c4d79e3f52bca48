"""Scopes of tokens: as a command line gives them, as the gateway has them, and as people read them. Pure."""

from typing import Any


def scope_of(text: str) -> dict[str, Any]:
    """Read a part of a scope: ACTIONS RESOURCE."""
    actions, blank, resource = text.strip().partition(" ")
    if not blank or not resource.strip():
        raise ValueError(f"{text!r} is not a scope: write ACTIONS RESOURCE, as 'Pub,Sub Topic:orders'")
    return {
        "actions": [one.strip() for one in actions.split(",") if one.strip()],
        "resource": resource.strip(),
    }


def scope_words(scope: list[dict[str, Any]]) -> str:
    """Return a scope in words."""
    return "; ".join(f"{', '.join(one['actions'])} on {one['resource']}" for one in scope)
