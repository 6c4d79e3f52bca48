"""Compiles an expression tree to closures over a message's properties.

A closure takes the prepared properties (see `reading`) and returns the value, or None for NULL.
Evaluation runs from left to right and stops where RocketMQ's does, so it attempts the same conversions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

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
from gantry_wire.sql92.reading import SCAN, TABLE, Get, Reading

SCANNED_STEPS_MAX = 16
"""An expression with more steps reads properties from a table. With fewer, scanning is faster."""
_SEARCH_STEPS = 8
"""Cost of a search through a long value, in comparisons."""


@dataclass(frozen=True, slots=True, eq=False)
class SqlFilter:
    """A compiled expression."""

    expression: str
    matches: Callable[[bytes], bool]
    """Whether the message with these property bytes matches. Never raises: a value that cannot be converted does not match."""
    steps: int
    """Maximum number of comparisons per message, about 0.25 µs each."""


def compile_filter(expression: str) -> SqlFilter:
    """Compile an expression. Raises MalformedSql."""
    tree = parse(expression)
    steps = count_steps(tree)
    return SqlFilter(expression, _matcher(tree, SCAN if steps <= SCANNED_STEPS_MAX else TABLE), steps)


def count_steps(node: Node) -> int:
    """Return the maximum number of comparisons of a tree per message."""
    match node:
        case Constant():
            return 0
        case Property() | BooleanCast() | IsIn():
            return 1
        case Equal() | Ordered():
            return 1 + (count_steps(node.left) + count_steps(node.right)) // 2
        case Logic():
            return sum(map(count_steps, node.parts))
        case Search():
            return _SEARCH_STEPS + count_steps(node.of)
        case Negation() | Not() | IsNull():
            return 1 + count_steps(node.of)


def _matcher(tree: Node, reading: Reading) -> Callable[[bytes], bool]:
    if isinstance(tree, Logic) and tree.is_and:
        holds = _compile_all(tree.parts, reading)
    else:
        holds = compile_node(tree, reading)
    prepare = reading.prepare

    def matches(properties: bytes) -> bool:
        try:
            return holds(prepare(properties)) is True
        except NotComparable:
            return False

    return matches


def _compile_all(parts: tuple[Node, ...], reading: Reading) -> Get:
    """Compile the outermost AND. Only TRUE matches there, so NULL ends it as early as FALSE does."""
    conditions = tuple(compile_node(part, reading) for part in parts)

    def holds(raw: Any) -> Value:
        for condition in conditions:  # noqa: SIM110 - all() over a generator costs twice as much
            if condition(raw) is not True:
                return False
        return True

    return holds


def compile_node(node: Node, reading: Reading) -> Get:
    """Return the closure of a tree. It raises NotComparable for a value that it cannot convert."""
    match node:
        case Property() | Constant() | Negation():
            return _compile_value(node, reading)
        case Equal():
            return compile_equal(node, partial(compile_node, reading=reading), reading)
        case Ordered():
            return compile_ordered(node, partial(compile_node, reading=reading), reading)
        case Logic():
            return _compile_logic(node, reading)
        case Not():
            return _compile_not(compile_node(node.of, reading))
        case IsNull() | IsIn() | Search() | BooleanCast():
            return _compile_predicate(node, reading)


def _compile_value(node: Property | Constant | Negation, reading: Reading) -> Get:
    if isinstance(node, Property):
        return reading.getter(node.name)
    if isinstance(node, Negation):
        return _compile_negation(compile_node(node.of, reading))
    value = node.value
    return lambda _raw: value


def _compile_predicate(node: IsNull | IsIn | Search | BooleanCast, reading: Reading) -> Get:
    if isinstance(node, IsNull):
        of = compile_node(node.of, reading)
        return lambda raw: of(raw) is None
    if isinstance(node, IsIn):
        return _compile_in(node, reading)
    if isinstance(node, Search):
        return _compile_search(node, reading)
    get = reading.getter(node.of.name)
    return lambda raw: None if get(raw) is None else False


def _compile_logic(node: Logic, reading: Reading) -> Get:
    """Compile AND or OR. The first deciding value ends the evaluation; NULL before it is remembered."""
    parts = tuple(compile_node(part, reading) for part in node.parts)
    deciding = not node.is_and

    def join(raw: Any) -> Value:
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
    def opposite(raw: Any) -> Value:
        value = of(raw)
        return None if value is None else not value

    return opposite


def _compile_negation(of: Get) -> Get:
    def negative(raw: Any) -> Value:
        value = of(raw)
        return -value if isinstance(value, int | float) and not isinstance(value, bool) else None

    return negative


def _compile_in(node: IsIn, reading: Reading) -> Get:
    get, values, negated = reading.getter(node.name), node.values, node.negated

    def is_in(raw: Any) -> Value:
        value = get(raw)
        return None if value is None else (value in values) is not negated

    return is_in


def _compile_search(node: Search, reading: Reading) -> Get:
    """Compile CONTAINS, STARTSWITH or ENDSWITH. An empty text and a value that is not a string give FALSE, even if negated."""
    of, text, negated = compile_node(node.of, reading), node.text, node.negated
    found: Callable[[bytes], bool]
    if node.word == "CONTAINS":
        found = lambda value: text in value  # noqa: E731 - three similar searches
    elif node.word == "STARTSWITH":
        found = lambda value: value.startswith(text)  # noqa: E731
    else:
        found = lambda value: value.endswith(text)  # noqa: E731

    def search(raw: Any) -> Value:
        value = of(raw) if text else None
        return isinstance(value, bytes) and found(value) is not negated

    return search
