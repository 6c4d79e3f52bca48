"""Parses tokens into a tree. Refuses what RocketMQ's parser and operand checks refuse.

Precedence, from lowest to highest: OR; AND; `=` `<>` IS [NOT] NULL; comparisons, [NOT] BETWEEN, IN, CONTAINS, STARTSWITH, ENDSWITH;
signs and NOT; names, literals and brackets.
"""

from gantry_wire.sql92.building import (
    between,
    condition,
    decimal,
    equal,
    floating,
    is_null,
    logic,
    negate,
    ordered,
)
from gantry_wire.sql92.errors import MalformedSql
from gantry_wire.sql92.lexer import END, FLOAT, INTEGER, NAME, STRING, Token, cut
from gantry_wire.sql92.limits import DEPTH_MAX
from gantry_wire.sql92.nodes import Constant, IsIn, Kind, Node, Not, Property, Search

ORDER_SIGNS = frozenset({">", ">=", "<", "<="})
SEARCH_WORDS = frozenset({"CONTAINS", "STARTSWITH", "ENDSWITH"})
_NEGATABLE = frozenset({"BETWEEN", "IN", *SEARCH_WORDS})
_WORDS = {"TRUE": (Kind.BOOLEAN, True), "FALSE": (Kind.BOOLEAN, False), "NULL": (Kind.NULL, None)}
_VALUE = "a property, a literal or '('"
_OPERATOR = "an operator or the end of the expression"


def parse(expression: str) -> Node:
    """Return the tree of an expression. Raises MalformedSql."""
    return _Parser(cut(expression)).whole()


class _Parser:
    """Recursive-descent parser of one expression. `_nested` counts the open brackets, signs and NOTs."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._nested = 0

    def whole(self) -> Node:
        start = self._next
        node = condition(self._any(), start.column)
        if self._next.kind != END:
            raise self._wrong(_OPERATOR)
        return node

    # --- levels of the grammar -----------------------------------------------------------------------------

    def _any(self) -> Node:
        return self._joined("OR")

    def _joined(self, word: str) -> Node:
        """Parse conditions joined by OR or by AND."""
        start = self._next
        first = self._joined("AND") if word == "OR" else self._equality()
        if self._next.kind != word:
            return first
        parts = [condition(first, start.column)]
        while self._take(word):
            start = self._next
            part = self._joined("AND") if word == "OR" else self._equality()
            parts.append(condition(part, start.column))
        return self._bounded(logic(parts, is_and=word == "AND"), start)

    def _equality(self) -> Node:
        start = self._next
        node = self._comparison()
        while True:
            token = self._next
            if self._take("="):
                node = equal(node, self._comparison(), token.column)
            elif self._take("<>"):
                same = equal(node, self._comparison(), token.column)
                node = Not(same, same.depth + 1)
            elif self._take("IS"):
                is_negated = self._take("NOT")
                if not self._take("NULL"):
                    raise self._wrong("NULL" if is_negated else "NULL or NOT NULL")
                node = is_null(node)
                if is_negated:
                    node = Not(node, node.depth + 1)
            else:
                return node
            self._bounded(node, start)

    def _comparison(self) -> Node:
        start = self._next
        node = self._unary()
        while True:
            token = self._next
            if token.kind in ORDER_SIGNS:
                self._at += 1
                node = ordered(token.kind, node, self._unary(), token.column)
            elif token.kind in _NEGATABLE:
                node = self._predicate(node, start, negated=False)
            elif token.kind == "NOT" and self._tokens[self._at + 1].kind in _NEGATABLE:
                self._at += 1
                node = self._predicate(node, start, negated=True)
            else:
                return node
            self._bounded(node, start)

    def _predicate(self, node: Node, start: Token, *, negated: bool) -> Node:
        """Parse a predicate that follows a value and begins with a keyword."""
        token = self._next
        self._at += 1
        if token.kind == "BETWEEN":
            low = self._unary()
            if not self._take("AND"):
                raise self._wrong("AND and the upper bound of BETWEEN")
            return between(node, low, self._unary(), token.column, negated=negated)
        if token.kind == "IN":
            if not isinstance(node, Property):
                raise MalformedSql(start.column, "a property before IN", repr(start.text))
            return IsIn(node.name, self._strings(), negated)
        return Search(token.kind, node, self._string(), negated, node.depth + 1)

    def _unary(self) -> Node:
        token = self._next
        if token.kind not in {"+", "-", "NOT"}:
            return self._primary()
        self._at += 1
        self._enter(token)
        operand = self._next
        node = self._unary()
        self._nested -= 1
        if token.kind == "-":
            node = negate(node)
        elif token.kind == "NOT":
            node = condition(node, operand.column)
            node = Not(node, node.depth + 1)
        return self._bounded(node, token)

    def _primary(self) -> Node:
        token = self._next
        self._at += 1
        if token.kind == NAME:
            return Property(token.text)
        if token.kind == STRING:
            return Constant(Kind.STRING, _unquoted(token))
        if token.kind == INTEGER:
            return decimal(token)
        if token.kind == FLOAT:
            return floating(token)
        if token.kind in _WORDS:
            return Constant(*_WORDS[token.kind])
        if token.kind != "(":
            self._at -= 1
            raise self._wrong(_VALUE)
        self._enter(token)
        node = self._any()
        self._nested -= 1
        if not self._take(")"):
            raise self._wrong(f"an operator or the ')' that closes column {token.column}")
        return node

    # --- pieces --------------------------------------------------------------------------------------------

    def _strings(self) -> frozenset[bytes]:
        if not self._take("("):
            raise self._wrong("'(' and the strings of IN")
        values = [self._string()]
        while self._take(","):
            values.append(self._string())
        if not self._take(")"):
            raise self._wrong("',' or ')'")
        return frozenset(values)

    def _string(self) -> bytes:
        token = self._next
        if token.kind != STRING:
            raise self._wrong("a string in single quotes")
        self._at += 1
        return _unquoted(token)

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self, kind: str) -> bool:
        """Consume the next token if it is of this kind."""
        if self._next.kind != kind:
            return False
        self._at += 1
        return True

    def _enter(self, token: Token) -> None:
        self._nested += 1
        if self._nested > DEPTH_MAX:
            raise _too_deep(token)

    def _bounded(self, node: Node, start: Token) -> Node:
        if node.depth > DEPTH_MAX:
            raise _too_deep(start)
        return node

    def _wrong(self, expected: str) -> MalformedSql:
        token = self._next
        found = "the end of the expression" if token.kind == END else repr(token.text)
        return MalformedSql(token.column, expected, found)


def _too_deep(token: Token) -> MalformedSql:
    return MalformedSql(token.column, f"at most {DEPTH_MAX} levels of brackets, signs, NOT and comparisons")


def _unquoted(token: Token) -> bytes:
    return token.text[1:-1].replace("''", "'").encode(errors="surrogatepass")
