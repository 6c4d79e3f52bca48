"""The types of messages that a topic takes by its attribute `message.type`, and those that a client can read in a route. Pure."""

from typing import Final

from gateway.grpc.proto.enums import MessageType

_NORMAL, _FIFO, _DELAY = MessageType.NORMAL, MessageType.FIFO, MessageType.DELAY
_TRANSACTION, _LITE, _PRIORITY = MessageType.TRANSACTION, MessageType.LITE, MessageType.PRIORITY
EVERY_TYPE: Final = (_NORMAL, _FIFO, _DELAY, _TRANSACTION, _LITE, _PRIORITY)
_ONE_TYPE: Final = {one.name: (one,) for one in EVERY_TYPE}
_SINCE: Final = {
    "JAVA": {_LITE: (5, 1, 0), _PRIORITY: (5, 2, 0)},
    "DOTNET": {_LITE: (5, 2, 1), _PRIORITY: (5, 2, 1)},
}
"""Clients that cannot read a route with a type that they do not know, and the first versions that know it."""


def accepted_types(kind: str) -> tuple[MessageType, ...]:
    """Return the types that a topic takes by its attribute. One without an attribute, or MIXED, takes every type."""
    return _ONE_TYPE.get(kind, EVERY_TYPE)


def shown_types(kind: str, language: str, version: str) -> list[int]:
    """Return the accepted types of a topic as a client of this version can read them; one at least."""
    types = accepted_types(kind)
    since = _SINCE.get(language.upper())
    if since is None:
        return list(types)
    its = _numbers(version)
    return [one for one in types if its >= since.get(one, ())] or [_NORMAL]


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version; a suffix as in 5.1.0-SNAPSHOT is left out."""
    parts = version.partition("-")[0].split(".")
    return tuple(int(part) for part in parts if part.isascii() and part.isdigit())
