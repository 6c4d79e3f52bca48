"""Splits an expression into tokens: words, numbers, strings and signs, each with its column."""

import re
from typing import NamedTuple

from gantry_wire.sql92.errors import MalformedSql
from gantry_wire.sql92.limits import EXPRESSION_CHARS_MAX

KEYWORDS = frozenset(
    "NOT AND OR BETWEEN IN TRUE FALSE NULL IS CONTAINS STARTSWITH ENDSWITH".split()  # noqa: SIM905 - reads as a list
)
END = "end"
NAME, INTEGER, FLOAT, STRING = "name", "integer", "float", "string"

_TOKEN = re.compile(
    r"""
      (?P<space>   [ \t\n\r\f]+ | --[^\n\r]*(?:\r\n|\n|\r|\Z) | /\*.*?\*/ )
    | (?P<float>   [0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)? | \.[0-9]+(?:[eE][+-]?[0-9]+)? | [0-9]+[eE][+-]?[0-9]+ )
    | (?P<integer> (?: 0 | [1-9][0-9]* )[lL]? )
    | (?P<string>  '[^']*(?:''[^']*)*' )
    | (?P<name>    [A-Za-z_$][A-Za-z0-9_$]* )
    | (?P<sign>    <> | <= | >= | [=<>(),+-] )
    """,
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    """One token. `kind` is the keyword or sign itself, or one of NAME, INTEGER, FLOAT, STRING, END."""

    kind: str
    text: str
    column: int


def cut(expression: str) -> list[Token]:
    """Return the tokens, followed by END. Raises MalformedSql."""
    if len(expression) > EXPRESSION_CHARS_MAX:
        found = f"{len(expression)} characters"
        raise MalformedSql(
            EXPRESSION_CHARS_MAX + 1, f"an expression of at most {EXPRESSION_CHARS_MAX} characters", found
        )
    tokens: list[Token] = []
    at, match = 0, _TOKEN.match
    while at < len(expression):
        found = match(expression, at)
        if found is None:
            raise _unreadable(expression, at)
        kind, text = found.lastgroup, found.group()
        if kind != "space":
            assert kind is not None
            tokens.append(Token(_kind(kind, text), text, at + 1))
        at = found.end()
    tokens.append(Token(END, "", len(expression) + 1))
    return tokens


def _kind(kind: str, text: str) -> str:
    if kind == "sign":
        return text
    word = text.upper()
    return word if kind == NAME and word in KEYWORDS else kind


def _unreadable(expression: str, at: int) -> MalformedSql:
    if expression[at] == "'":
        return MalformedSql(at + 1, "a string that ends with a single quote", repr(expression[at : at + 16]))
    if expression.startswith("/*", at):
        return MalformedSql(at + 1, "a comment that ends with */")
    return MalformedSql(
        at + 1, "a name, a number, a string in single quotes or an operator", repr(expression[at])
    )
