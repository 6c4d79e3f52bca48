"""Converts strings to numbers and booleans as Java's valueOf does, and orders doubles as Java does."""

import re

from gantry_wire.limits import INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN
from gantry_wire.sql92.errors import NotComparable

SAFE_DIGITS = 9
"""Any number with so few ASCII digits fits an int32."""
_INTEGER = re.compile(r"[+-]?\d{1,400}")
_DOUBLE = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?)[fFdD]?")
_HEX = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
_WORDS = {"NaN": float("nan"), "Infinity": float("inf")}
_TRIMMED = "".join(map(chr, range(0x21)))
_BMP_END = "\uffff"


def to_integer(value: bytes) -> int:
    """Return an int32. Raises NotComparable."""
    if value.isdigit() and len(value) <= SAFE_DIGITS:
        return int(value)
    return _integer(value, INT32_MIN, INT32_MAX)


def to_long(value: bytes) -> int:
    """Return an int64. Raises NotComparable."""
    if value.isdigit() and len(value) <= SAFE_DIGITS:
        return int(value)
    return _integer(value, INT64_MIN, INT64_MAX)


def to_double(value: bytes) -> float:
    """Return a double. Raises NotComparable."""
    if value.isdigit() and len(value) <= SAFE_DIGITS:
        return float(value)
    text = _text(value).strip(_TRIMMED)
    if _DOUBLE.fullmatch(text):
        return float(text.rstrip("fFdD"))
    number = _WORDS.get(text.lstrip("+-")) if text[:2] not in {"++", "--", "+-", "-+"} else None
    if number is not None:
        return -number if text[0] == "-" else number
    hexadecimal = _HEX.fullmatch(text)
    if hexadecimal is None:
        raise NotComparable
    try:
        return float.fromhex(hexadecimal[1])
    except OverflowError:
        return float("-inf" if text[0] == "-" else "inf")


def to_boolean(value: bytes) -> bool:
    """Return whether a string is `true`, ignoring case."""
    return value.lower() == b"true"


def order_key(value: float) -> tuple[bool, float, bool]:
    """Return a sort key for doubles that matches Java's compareTo: -0.0 below 0.0, NaN above everything and equal to itself."""
    if value != value:  # noqa: PLR0124 - only NaN differs from itself
        return (True, 0.0, False)
    return (False, value, value == 0.0 and not str(value).startswith("-"))


def _integer(value: bytes, low: int, high: int) -> int:
    text = _text(value)
    if not _INTEGER.fullmatch(text) or max(text) > _BMP_END:
        raise NotComparable
    number = int(text)
    if not low <= number <= high:
        raise NotComparable
    return number


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise NotComparable from None
