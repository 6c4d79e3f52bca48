"""Errors of compiling an expression and of evaluating it on a message."""

from gantry_wire.errors import MalformedExpression

FOUND_CHARS_MAX = 32


class MalformedSql(MalformedExpression):
    """An expression cannot be parsed. The message has the column (1 is the first character) and the expected text."""

    def __init__(self, column: int, expected: str, found: str = "") -> None:
        shown = f", found {found[:FOUND_CHARS_MAX]}" if found else ""
        super().__init__(f"column {column}: expected {expected}{shown}")
        self.column = column
        self.expected = expected


class NotComparable(Exception):
    """A value cannot be converted to the type that it is compared with. The message does not match, as in RocketMQ."""
