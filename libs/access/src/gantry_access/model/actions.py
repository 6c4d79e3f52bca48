"""Actions on a resource. One value holds several: they are bits, so a rule compares them with one `&`."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntFlag

from gantry_access.errors import AnyAction, UnknownAction


class Action(IntFlag):
    """What a request does, or a set of that. Texts are RocketMQ's; a set iterates in this order."""

    ALL = 1
    """In an entry: every action. In a request: only what an entry with All permits."""
    PUB = 2
    SUB = 4
    CREATE = 8
    UPDATE = 16
    DELETE = 32
    GET = 64
    LIST = 128

    @classmethod
    def parse(cls, text: str) -> Action:
        """Return the action of a name in any case. Raises UnknownAction, and AnyAction for `Any`."""
        found = _BY_NAME.get(text.lower())
        if found is not None:
            return found
        if text.lower() == "any":
            raise AnyAction("the action Any is not allowed in a policy; All means every action")
        raise UnknownAction(
            f"the action {text[:64]!r} is unknown; known are {', '.join(Action.every().names)}"
        )

    @classmethod
    def parse_all(cls, texts: Iterable[str]) -> Action:
        """Return the set of several names. Raises as `parse` does; nothing is skipped."""
        found = cls(0)
        for text in texts:
            found |= cls.parse(text)
        return found

    @classmethod
    def every(cls) -> Action:
        """Return the set of all actions."""
        return _EVERY

    @property
    def names(self) -> list[str]:
        """RocketMQ's name of each action of this set."""
        return [(action.name or "").capitalize() for action in self]

    @property
    def permitted(self) -> int:
        """The bits of the requested actions that an entry with this set permits or denies."""
        return int(_EVERY if self & Action.ALL else self)


_EVERY = Action(2 * Action.LIST - 1)
_BY_NAME = {name.lower(): action for name, action in Action.__members__.items()}
