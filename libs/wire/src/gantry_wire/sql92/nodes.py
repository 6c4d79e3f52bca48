"""The syntax tree of an expression. Each node knows its depth.

`kind` is the static type of a node's value when it is not NULL. Properties are strings.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias


class Kind(Enum):
    """Types of values, with Java's names where conversions depend on them."""

    STRING = "string"
    INTEGER = "integer"
    LONG = "long"
    DOUBLE = "double"
    BOOLEAN = "boolean"
    NULL = "null"
    """Always NULL, like a sign before a string."""


NUMBERS = frozenset({Kind.INTEGER, Kind.LONG, Kind.DOUBLE})
Value: TypeAlias = "bytes | int | float | bool | None"
"""A string is UTF-8 bytes; NULL is None."""


@dataclass(frozen=True, slots=True)
class Property:
    """The value of a message's property."""

    name: str
    kind: Kind = Kind.STRING
    depth: int = 1


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal."""

    kind: Kind
    value: Value
    depth: int = 1


@dataclass(frozen=True, slots=True)
class Negation:
    """A minus sign: negates numbers, gives NULL for other values."""

    of: "Node"
    kind: Kind
    depth: int


@dataclass(frozen=True, slots=True)
class Logic:
    """AND or OR of two or more conditions."""

    is_and: bool
    parts: tuple["Node", ...]
    depth: int
    kind: Kind = field(default=Kind.BOOLEAN, init=False)


@dataclass(frozen=True, slots=True)
class Not:
    """The negation of a condition; NULL stays NULL."""

    of: "Node"
    depth: int
    kind: Kind = field(default=Kind.BOOLEAN, init=False)


@dataclass(frozen=True, slots=True)
class Equal:
    """`left = right`."""

    left: "Node"
    right: "Node"
    depth: int
    kind: Kind = field(default=Kind.BOOLEAN, init=False)


@dataclass(frozen=True, slots=True)
class Ordered:
    """`left < right`, or with `<=`, `>` or `>=`."""

    sign: str
    left: "Node"
    right: "Node"
    depth: int
    kind: Kind = field(default=Kind.BOOLEAN, init=False)


@dataclass(frozen=True, slots=True)
class IsNull:
    """`of IS NULL`."""

    of: "Node"
    depth: int
    kind: Kind = field(default=Kind.BOOLEAN, init=False)


@dataclass(frozen=True, slots=True)
class IsIn:
    """`name [NOT] IN ('a', 'b')`."""

    name: str
    values: frozenset[bytes]
    negated: bool
    depth: int = 1
    kind: Kind = field(default=Kind.BOOLEAN, init=False)


@dataclass(frozen=True, slots=True)
class Search:
    """`of [NOT] CONTAINS | STARTSWITH | ENDSWITH 'text'`."""

    word: str
    of: "Node"
    text: bytes
    negated: bool
    depth: int
    kind: Kind = field(default=Kind.BOOLEAN, init=False)


@dataclass(frozen=True, slots=True)
class BooleanCast:
    """A property used as a condition: FALSE if it is present, whatever its value."""

    of: Property
    depth: int = 2
    kind: Kind = field(default=Kind.BOOLEAN, init=False)


Node: TypeAlias = (
    "Property | Constant | Negation | Logic | Not | Equal | Ordered | IsNull | IsIn | Search | BooleanCast"
)


def is_condition(node: Node) -> bool:
    """Whether a node can be used as a condition. NULL can, like TRUE and FALSE."""
    if isinstance(node, Constant):
        return node.kind in {Kind.BOOLEAN, Kind.NULL}
    return node.kind is Kind.BOOLEAN
