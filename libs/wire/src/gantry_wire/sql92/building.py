"""Builds nodes and refuses the operands that RocketMQ refuses when it compiles an expression."""

from gantry_wire.limits import INT32_MAX, INT64_MAX
from gantry_wire.sql92.errors import MalformedSql
from gantry_wire.sql92.lexer import Token
from gantry_wire.sql92.nodes import (
    NUMBERS,
    BooleanCast,
    Constant,
    Equal,
    IsNull,
    Kind,
    Logic,
    Negation,
    Node,
    Ordered,
    Property,
    is_condition,
)

LONG_DIGITS_MAX = 19


def condition(node: Node, column: int) -> Node:
    """Return a node as a condition. Casts a lone property to a boolean; raises MalformedSql for other values."""
    if isinstance(node, Property):
        return BooleanCast(node)
    if not is_condition(node):
        raise MalformedSql(column, "a condition, such as a comparison", "a value alone")
    return node


def logic(parts: list[Node], *, is_and: bool) -> Node:
    """Return AND or OR of conditions."""
    return Logic(is_and, tuple(parts), _depth(*parts))


def equal(left: Node, right: Node, column: int) -> Node:
    """Return `left = right`."""
    if _is_null(left) or _is_null(right):
        raise MalformedSql(column, "IS NULL or IS NOT NULL", "a comparison with NULL")
    both_literal = isinstance(left, Constant) and isinstance(right, Constant)
    if both_literal and left.kind is Kind.BOOLEAN and right.kind is not Kind.BOOLEAN:
        raise MalformedSql(column, "TRUE or FALSE on both sides", "a literal of another type")
    return Equal(left, right, _depth(left, right))


def ordered(sign: str, left: Node, right: Node, column: int) -> Node:
    """Return `left sign right`. Raises MalformedSql for string literals and conditions, which have no order."""
    for operand in (left, right):
        if is_condition(operand) or (isinstance(operand, Constant) and operand.kind not in NUMBERS):
            raise MalformedSql(column, f"numbers or properties on both sides of {sign}")
    return Ordered(sign, left, right, _depth(left, right))


def between(value: Node, low: Node, high: Node, column: int, *, negated: bool) -> Node:
    """Return `value BETWEEN low AND high`, both inclusive, or its negation."""
    if negated:
        below, above = ordered("<", value, low, column), ordered(">", value, high, column)
        return logic([below, above], is_and=False)
    if isinstance(low, Constant) and isinstance(high, Constant):
        bottom, top = low.value, high.value
        if low.kind in NUMBERS and high.kind in NUMBERS:
            assert isinstance(bottom, int | float)
            assert isinstance(top, int | float)
            if top < bottom:
                raise MalformedSql(column, "bounds with the lower one first", f"{bottom} AND {top}")
    from_low, to_high = ordered(">=", value, low, column), ordered("<=", value, high, column)
    return logic([from_low, to_high], is_and=True)


def is_null(of: Node) -> Node:
    """Return `of IS NULL`."""
    return IsNull(of, of.depth + 1)


def negate(of: Node) -> Node:
    """Return `-of`."""
    return Negation(of, of.kind if of.kind in NUMBERS else Kind.NULL, of.depth + 1)


def decimal(token: Token) -> Constant:
    """Return an integer literal. Raises MalformedSql beyond 64 bits, even with a sign before it."""
    digits = token.text.rstrip("lL")
    value = int(digits) if len(digits) <= LONG_DIGITS_MAX else INT64_MAX + 1
    if value > INT64_MAX:
        raise MalformedSql(token.column, f"a number up to {INT64_MAX}", token.text)
    return Constant(Kind.INTEGER if value <= INT32_MAX else Kind.LONG, value)


def floating(token: Token) -> Constant:
    """Return a floating-point literal. Raises MalformedSql if it rounds to 0.0 or infinity, as RocketMQ does."""
    value = float(token.text)
    if value == float("inf"):
        raise MalformedSql(token.column, "a number up to 1.7976931348623157E308", token.text)
    if value == 0.0:
        raise MalformedSql(token.column, "a number from 4.9E-324 on (write zero as 0)", token.text)
    return Constant(Kind.DOUBLE, value)


def _is_null(node: Node) -> bool:
    return isinstance(node, Constant) and node.kind is Kind.NULL


def _depth(*parts: Node) -> int:
    return 1 + max(part.depth for part in parts)
