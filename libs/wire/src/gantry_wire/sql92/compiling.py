"""Turns the tree of an expression into closures over property bytes. Each reads the properties it names, and no others.

A closure takes framed bytes (see reading) and returns the value, or None for NULL.
Evaluation goes from left to right and stops where RocketMQ's does, so that what cannot be converted fails there or not at all.
"""

from collections.abc import Callable
from dataclasses import dataclass

from gantry_wire.sql92.comparing import compile_equal, compile_ordered
from gantry_wire.sql92.errors import NotComparable
from gantry_wire.sql92.nodes import (
    BooleanCast,
    Constant,
    Equal,
    IsIn,
    IsNull,
    Logic,
    Negation,
    Node,
    Not,
    Ordered,
    Property,
    Search,
    Value,
)
from gantry_wire.sql92.parser import parse
from gantry_wire.sql92.reading import Get, property_getter

_FRAME = b"\x02"


@dataclass(frozen=True, slots=True, eq=False)
class SqlFilter:
    """A compiled expression."""

    expression: str
    matches: Callable[[bytes], bool]
    """Whether the message with these property bytes is wanted. Never raises: what cannot be compared does not match."""


def compile_filter(expression: str) -> SqlFilter:
    """Compile an expression. Raises MalformedSql."""
    tree = parse(expression)
    holds = _compile_all(tree.parts) if isinstance(tree, Logic) and tree.is_and else compile_node(tree)

    def matches(properties: bytes) -> bool:
        try:
            return holds(_FRAME + properties) is True
        except NotComparable:
            return False

    return SqlFilter(expression, matches)


def _compile_all(parts: tuple[Node, ...]) -> Get:
    """Compile the outermost AND. Only TRUE counts there, so that NULL ends it as early as FALSE does."""
    conditions = tuple(map(compile_node, parts))

    def holds(raw: bytes) -> Value:
        for condition in conditions:  # noqa: SIM110 - all() over a generator costs twice as much
            if condition(raw) is not True:
                return False
        return True

    return holds


def compile_node(node: Node) -> Get:
    """Return the closure of a tree. What it cannot compare raises NotComparable."""
    match node:
        case Property() | Constant() | Negation():
            return _compile_value(node)
        case Equal():
            return compile_equal(node, compile_node)
        case Ordered():
            return compile_ordered(node, compile_node)
        case Logic() | Not():
            return _compile_logic(node) if isinstance(node, Logic) else _compile_not(compile_node(node.of))
        case IsNull() | IsIn() | Search() | BooleanCast():
            return _compile_predicate(node)


def _compile_value(node: Property | Constant | Negation) -> Get:
    if isinstance(node, Property):
        return property_getter(node.name)
    if isinstance(node, Negation):
        return _compile_negation(compile_node(node.of))
    value = node.value
    return lambda _raw: value


def _compile_predicate(node: IsNull | IsIn | Search | BooleanCast) -> Get:
    if isinstance(node, IsNull):
        of = compile_node(node.of)
        return lambda raw: of(raw) is None
    if isinstance(node, IsIn):
        return _compile_in(node)
    if isinstance(node, Search):
        return _compile_search(node)
    get = property_getter(node.of.name)
    return lambda raw: None if get(raw) is None else False


def _compile_logic(node: Logic) -> Get:
    """AND and OR: what decides ends it, NULL is remembered."""
    parts = tuple(map(compile_node, node.parts))
    deciding = not node.is_and

    def join(raw: bytes) -> Value:
        joined: Value = not deciding
        for part in parts:
            value = part(raw)
            if value is deciding:
                return deciding
            if value is None:
                joined = None
        return joined

    return join


def _compile_not(of: Get) -> Get:
    def opposite(raw: bytes) -> Value:
        value = of(raw)
        return None if value is None else not value

    return opposite


def _compile_negation(of: Get) -> Get:
    def negative(raw: bytes) -> Value:
        value = of(raw)
        return -value if isinstance(value, int | float) and not isinstance(value, bool) else None

    return negative


def _compile_in(node: IsIn) -> Get:
    get, values, negated = property_getter(node.name), node.values, node.negated

    def is_in(raw: bytes) -> Value:
        value = get(raw)
        return None if value is None else (value in values) is not negated

    return is_in


def _compile_search(node: Search) -> Get:
    """CONTAINS and its like: FALSE, negated too, for no text to look for and for what is no string."""
    of, text, negated = compile_node(node.of), node.text, node.negated
    found: Callable[[bytes], bool]
    if node.word == "CONTAINS":
        found = lambda value: text in value  # noqa: E731 - three searches side by side
    elif node.word == "STARTSWITH":
        found = lambda value: value.startswith(text)  # noqa: E731
    else:
        found = lambda value: value.endswith(text)  # noqa: E731

    def search(raw: bytes) -> Value:
        value = of(raw) if text else None
        return isinstance(value, bytes) and found(value) is not negated

    return search
