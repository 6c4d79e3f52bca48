"""What is wrong with an expression, and what a message's properties cannot be converted to."""

from gantry_wire.errors import MalformedExpression

FOUND_CHARS_MAX = 32


class MalformedSql(MalformedExpression):
    """An expression cannot be read. Tell the client `column` (1 is the first character) and what was expected there."""

    def __init__(self, column: int, expected: str, found: str = "") -> None:
        shown = f", found {found[:FOUND_CHARS_MAX]}" if found else ""
        super().__init__(f"column {column}: expected {expected}{shown}")
        self.column = column
        self.expected = expected


class NotComparable(Exception):
    """A value cannot be converted to what it is compared with: the message does not match, as in RocketMQ."""
