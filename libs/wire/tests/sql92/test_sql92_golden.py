"""Every case of RocketMQ's filter module has the same result here: TRUE, FALSE, NULL, an error or a refusal."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_wire.messages.properties import format_properties
from gantry_wire.sql92.compiling import compile_filter, compile_node, count_steps
from gantry_wire.sql92.errors import MalformedSql, NotComparable
from gantry_wire.sql92.parser import parse
from gantry_wire.sql92.reading import SCAN, TABLE

CASES = json.loads(Path(__file__).with_name("sql92_cases.json").read_text())["cases"]
WORDS = {True: "true", False: "false", None: "null"}


READINGS = {"scan": SCAN, "table": TABLE}
VALUES = st.sampled_from(["", "5", "-1", "x", "true", "1.5", "é", "9" * 20]) | st.text(max_size=8)


def answer(expression, raw, reading):
    try:
        return WORDS[compile_node(parse(expression), reading)(reading.prepare(raw))]
    except MalformedSql:
        return "refused"
    except NotComparable:
        return "error"


@pytest.mark.parametrize("reading", READINGS.values(), ids=list(READINGS))
@pytest.mark.parametrize("trailing", [True, False], ids=["5.x", "4.9 drops the last separator"])
def test_expressions_evaluate_as_in_rocketmq(trailing, reading):
    wrong = []
    for expression, properties, expected in CASES:
        raw = format_properties(properties)
        raw = raw if trailing else raw[:-1]
        if answer(expression, raw, reading) != expected:
            wrong.append((expression, properties, expected, answer(expression, raw, reading)))
        elif expected != "refused" and compile_filter(expression).matches(raw) != (expected == "true"):
            wrong.append((expression, properties, expected, "matches() differs"))
    assert wrong == []


def test_the_cases_cover_every_result():
    answers = [expected for _, _, expected in CASES]
    assert len(answers) > 500
    assert all(answers.count(word) > 50 for word in ("true", "false", "null", "error", "refused"))


LEGAL = sorted({expression for expression, _, expected in CASES if expected != "refused"})
NAMES = sorted({name for _, properties, _ in CASES for name in properties})


@given(
    st.sampled_from(LEGAL),
    st.lists(st.tuples(st.sampled_from(NAMES) | st.text(max_size=3), VALUES), max_size=8),
    st.booleans(),
)
def test_a_table_and_scanning_agree(expression, pairs, trailing):
    raw = "\x02".join(f"{name}\x01{value}" for name, value in pairs).encode(errors="replace")
    raw += b"\x02" * trailing
    assert answer(expression, raw, TABLE) == answer(expression, raw, SCAN)


def test_a_long_expression_reads_properties_from_a_table_and_a_short_one_scans():
    long = " OR ".join(f"p = '{number}'" for number in range(1000))
    assert count_steps(parse(long)) == 1000
    assert compile_filter(long).steps == 1000
    assert compile_filter(long).matches(b"p\x01999\x02")
    assert not compile_filter(long).matches(b"p\x011000\x02")
    assert compile_filter("p = '1'").steps == 1
