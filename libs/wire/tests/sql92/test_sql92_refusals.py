"""An invalid expression is refused with the column and the expected text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_wire.codes import ResponseCode
from gantry_wire.sql92.compiling import compile_filter
from gantry_wire.sql92.errors import MalformedSql
from gantry_wire.sql92.limits import DEPTH_MAX, EXPRESSION_CHARS_MAX

WORDS = st.sampled_from(
    [
        "a",
        "b",
        "5",
        "-5",
        "5.5",
        "'x'",
        "''",
        "NULL",
        "TRUE",
        "FALSE",
        "NOT",
        "AND",
        "OR",
        "IN",
        "BETWEEN",
        "IS",
        "CONTAINS",
        "STARTSWITH",
        "ENDSWITH",
        "(",
        ")",
        ",",
        "=",
        "<>",
        "<",
        ">=",
        "+",
        "-",
        "'",
        "\x00",
        "é",
        "/*",
        "*/",
        "--",
        "\n",
    ]
)


@pytest.mark.parametrize(
    ("expression", "column", "expected"),
    [
        ("", 1, "a property, a literal or '('"),
        ("a = ", 5, "a property, a literal or '('"),
        ("a = 1 b", 7, "the end of the expression"),
        ("a = 1 AND (b = 2", 17, "closes column 11"),
        ("a = 1)", 6, "the end of the expression"),
        ("a = 'x", 5, "single quote"),
        ("a = 5 /* never", 7, "*/"),
        ("a ! 5", 3, "an operator"),
        ("a IN 'x'", 6, "'('"),
        ("a IN (5)", 7, "a string"),
        ("a IN ('x' 'y')", 11, "',' or ')'"),
        ("5 IN ('x')", 1, "a property before IN"),
        ("a CONTAINS b", 12, "a string"),
        ("a BETWEEN 1 OR 2", 13, "AND"),
        ("a BETWEEN 5 AND 1", 3, "lower one first"),
        ("a IS 5", 6, "NULL or NOT NULL"),
        ("a IS NOT 5", 10, "NULL"),
        ("a > 'x'", 3, "numbers"),
        ("a = NULL", 3, "IS NULL"),
        ("a = 9223372036854775808", 5, "9223372036854775807"),
        ("a = 1e999", 5, "308"),
        ("a = 0.0", 5, "zero as 0"),
        ("5 AND a = 1", 1, "a condition"),
        ("a = 1 AND 'x'", 11, "a condition"),
        ("'x'", 1, "a condition"),
    ],
)
def test_a_refusal_contains_the_column_and_the_expected_text(expression, column, expected):
    with pytest.raises(MalformedSql) as caught:
        compile_filter(expression)
    assert caught.value.column == column
    assert expected in caught.value.expected
    assert str(caught.value).startswith(f"column {column}: expected ")
    assert caught.value.code is ResponseCode.SUBSCRIPTION_PARSE_FAILED


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 1000 + "a = 1" + ")" * 1000,
        "(" * (EXPRESSION_CHARS_MAX - 1),
        "NOT " * 1000 + "a",
        "-" + " -" * 1000 + "a = 1",
        "a = b" + " = b" * 1000,
        "a" + " IS NULL" * 1000,
        "a CONTAINS 'x'" + " CONTAINS 'x'" * 1000,
    ],
    ids=["brackets", "unbalanced", "not", "signs", "chain", "is null", "contains"],
)
def test_an_expression_that_nests_too_deep_is_refused(expression):
    with pytest.raises(MalformedSql, match=f"at most {DEPTH_MAX} levels"):
        compile_filter(expression)


def test_nesting_up_to_the_limit_is_accepted():
    expression = "(" * (DEPTH_MAX - 1) + "a = 1" + ")" * (DEPTH_MAX - 1)
    assert compile_filter(expression).matches(b"a\x011\x02")


def test_an_expression_of_64_kb_is_refused_and_one_at_the_limit_is_not():
    long = " OR ".join(f"a = {n}" for n in range(10_000))
    with pytest.raises(MalformedSql, match=f"at most {EXPRESSION_CHARS_MAX} characters, found"):
        compile_filter(long)
    allowed = long[: long.rindex(" OR ", 0, EXPRESSION_CHARS_MAX)]
    assert compile_filter(allowed).matches(b"a\x012000\x02")


def test_an_in_list_can_fill_the_whole_expression():
    names = ",".join(f"'{n}'" for n in range(4000))
    assert compile_filter(f"a IN ({names})").matches(b"a\x013999\x02")


@given(st.lists(WORDS, max_size=12).map(" ".join), st.binary(max_size=60))
def test_any_text_is_compiled_or_refused_and_any_bytes_are_matched(expression, properties):
    try:
        answer = compile_filter(expression).matches(properties)
    except MalformedSql as error:
        column = error.column
    else:
        column = 1
        assert answer in {True, False}
    assert 1 <= column <= len(expression) + 1
