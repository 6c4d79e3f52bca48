"""Makes the objects that a setting names: by `module:Class`, or by the name of an entry point of an installed package."""

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, NamedTuple

from gantry_chassis.start_refusal import StartRefused


class Kind(NamedTuple):
    """What is to be made."""

    what: str
    """In words, for errors: `extension`."""
    group: str
    """The group of entry points under which packages offer it."""
    built_in: Mapping[str, str] = {}
    """Places by name of what comes with the service."""


def make_named(kind: Kind, names: str) -> list[tuple[str, object]]:
    """Return name and object of each class that is named, in this order, separated by commas; each is made without arguments.

    Raises StartRefused.
    """
    return [(name, _made(kind, name)) for name in (part.strip() for part in names.split(",")) if name]


def _made(kind: Kind, name: str) -> object:
    try:
        return _found(kind, name)()
    except Exception as error:
        raise StartRefused(f"the {kind.what} {name!r} cannot be loaded: {error!r}") from error


def _found(kind: Kind, name: str) -> Any:
    module, separator, attribute = kind.built_in.get(name, name).partition(":")
    if separator:
        return getattr(import_module(module), attribute)
    for entry in entry_points(group=kind.group, name=name):
        return entry.load()
    raise LookupError(f"no entry point {name!r} in the group {kind.group}")
