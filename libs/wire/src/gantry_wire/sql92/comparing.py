"""Compiles comparisons to closures. Chooses the conversion for each pair of types at compile time.

The usual case, a property compared with a literal, has a fast path when properties are scanned. All other pairs take the
general path.
"""

import operator
from collections.abc import Callable
from typing import Any, TypeAlias

from gantry_wire.sql92.conversions import order_key, to_boolean, to_double, to_integer, to_long
from gantry_wire.sql92.errors import NotComparable
from gantry_wire.sql92.nodes import NUMBERS, Constant, Equal, Kind, Node, Ordered, Property, Value
from gantry_wire.sql92.reading import Get, Reading, earlier_value, property_mark

Test: TypeAlias = Callable[[Any, Any], bool]
Compile: TypeAlias = Callable[[Node], Get]

READ_AS: dict[Kind, Callable[[bytes], Any]] = {
    Kind.INTEGER: to_integer,
    Kind.LONG: to_long,
    Kind.DOUBLE: to_double,
    Kind.BOOLEAN: to_boolean,
}
"""The conversion of a string that is compared with a value of this kind."""
TESTS: dict[str, Test] = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def compile_equal(node: Equal, compile_node: Compile, reading: Reading) -> Get:
    """Compile `left = right`. A missing left gives NULL, a missing right FALSE; two missing values are equal."""
    left, right = node.left, node.right
    if reading.is_scan and isinstance(left, Property) and isinstance(right, Constant):
        return _property_equals(left.name, right, missing=None)
    is_boolean = left.kind is Kind.BOOLEAN
    if reading.is_scan and isinstance(left, Constant) and isinstance(right, Property) and not is_boolean:
        return _property_equals(right.name, left, missing=False)
    get_left, get_right = compile_node(left), compile_node(right)
    same = _sameness(left.kind, right.kind)

    def equal(raw: bytes) -> Value:
        one, other = get_left(raw), get_right(raw)
        if one is None:
            return True if other is None else None
        return other is not None and same(one, other)

    return equal


def compile_ordered(node: Ordered, compile_node: Compile, reading: Reading) -> Get:
    """Compile `<`, `<=`, `>` or `>=`. NULL on either side gives NULL."""
    left, right = node.left, node.right
    if reading.is_scan and isinstance(left, Property) and isinstance(right, Constant):
        return _property_ordered(left.name, TESTS[node.sign], right)
    if reading.is_scan and isinstance(left, Constant) and isinstance(right, Property):
        return _property_ordered(right.name, TESTS[MIRRORED[node.sign]], left)
    get_left, get_right = compile_node(left), compile_node(right)
    test = _order(TESTS[node.sign], left.kind, right.kind)

    def ordered(raw: bytes) -> Value:
        one = get_left(raw)
        if one is None:
            return None
        other = get_right(raw)
        return None if other is None else test(one, other)

    return ordered


def _property_equals(name: str, constant: Constant, *, missing: Value) -> Get:
    mark, wanted = property_mark(name), constant.value
    read = READ_AS.get(constant.kind)
    # The property read is inlined because evaluation spends most of its time in these closures.

    def is_equal(raw: bytes) -> Value:
        value = raw.rpartition(mark)[2].partition(b"\x02")[0] or earlier_value(raw, mark)
        if value is None:
            return missing
        return value == wanted if read is None else read(value) == wanted

    return is_equal


def _property_ordered(name: str, test: Test, constant: Constant) -> Get:
    mark, bound = property_mark(name), constant.value
    read = _to_ordered_double if constant.kind is Kind.DOUBLE else READ_AS[constant.kind]

    def is_ordered(raw: bytes) -> Value:
        value = raw.rpartition(mark)[2].partition(b"\x02")[0] or earlier_value(raw, mark)
        return None if value is None else test(read(value), bound)

    return is_ordered


def _to_ordered_double(value: bytes) -> float:
    """Convert a string for ordering against a finite number. NaN orders above every number, so infinity stands in for it."""
    number = to_double(value)
    return float("inf") if number != number else number  # noqa: PLR0124 - only NaN differs from itself


def _sameness(left: Kind, right: Kind) -> Test:
    """Return the equality test of two non-NULL values."""
    if left is right:
        return operator.eq
    if left is Kind.STRING and right in READ_AS:
        read_left = READ_AS[right]
        return lambda one, other: read_left(one) == other
    if right is Kind.STRING and left in NUMBERS:
        read_right = READ_AS[left]
        return lambda one, other: one == read_right(other)
    if right is Kind.STRING and left is Kind.BOOLEAN:
        return _fail
    if left in NUMBERS and right in NUMBERS:
        return lambda one, other: float(one) == float(other) if Kind.DOUBLE in {left, right} else one == other
    return lambda _one, _other: False


def _order(test: Test, left: Kind, right: Kind) -> Test:
    """Return the ordering test of two non-NULL values: two strings compare as doubles, a string and a number as the number's type."""
    if left is Kind.STRING and right is Kind.STRING:
        return lambda one, other: test(order_key(to_double(one)), order_key(to_double(other)))
    if left is Kind.STRING and right in NUMBERS:
        read_left = _to_ordered_double if right is Kind.DOUBLE else READ_AS[right]
        return lambda one, other: test(read_left(one), other)
    if right is Kind.STRING and left in NUMBERS:
        read_right = _to_ordered_double if left is Kind.DOUBLE else READ_AS[left]
        return lambda one, other: test(one, read_right(other))
    if Kind.DOUBLE in {left, right}:
        return lambda one, other: test(float(one), float(other))
    return test


def _fail(_one: object, _other: object) -> bool:
    """Compare a condition with a string: Java cannot cast it."""
    raise NotComparable
