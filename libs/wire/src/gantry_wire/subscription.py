"""Parses tag subscriptions (`*`, or tags joined by `||`) into the tags codes that filter a queue. Knows no queues."""

from __future__ import annotations

from dataclasses import dataclass

from gantry_wire.errors import MalformedExpression
from gantry_wire.messages.properties import tags_code
from gantry_wire.records.units import EXTENSION_ADDRESS_MAX

SUBSCRIBE_ALL = "*"
TAG = "TAG"
SQL92 = "SQL92"


@dataclass(slots=True, frozen=True)
class TagFilter:
    """The tags that a consumer subscribes to. `codes` is None for all messages."""

    codes: frozenset[int] | None
    names: frozenset[str]

    @classmethod
    def parse(cls, expression: str | None) -> TagFilter:
        """Return the filter of an expression. None, empty and `*` match everything. Raises MalformedExpression without a tag."""
        if not expression or expression == SUBSCRIBE_ALL:
            return EVERYTHING
        names = frozenset(filter(None, (part.strip() for part in expression.split("||"))))
        if not names:
            raise MalformedExpression(f"the subscription expression {expression[:64]!r} contains no tag")
        return cls(frozenset(map(tags_code, names)), names)

    def matches(self, code: int) -> bool:
        """Whether a unit with this tags code may match; the client compares the tag itself.

        Compares the low 32 bits only. An address in a ConsumeQueue extension always matches, because it is not a tag hash.
        """
        if self.codes is None or code in self.codes or code <= EXTENSION_ADDRESS_MAX:
            return True
        return ((code + 0x80000000) & 0xFFFFFFFF) - 0x80000000 in self.codes


EVERYTHING = TagFilter(None, frozenset())
