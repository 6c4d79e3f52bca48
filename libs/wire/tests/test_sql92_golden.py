"""Every case of RocketMQ's own filter module has the same answer here: TRUE, FALSE, NULL, an error, or a refusal."""

import json
from pathlib import Path

import pytest

from gantry_wire.properties import format_properties
from gantry_wire.sql92 import MalformedSql, compile_filter
from gantry_wire.sql92.compiling import compile_node
from gantry_wire.sql92.errors import NotComparable
from gantry_wire.sql92.parser import parse

CASES = json.loads(Path(__file__).with_name("sql92_cases.json").read_text())["cases"]
WORDS = {True: "true", False: "false", None: "null"}


def answer(expression, raw):
    try:
        return WORDS[compile_node(parse(expression))(b"\x02" + raw)]
    except MalformedSql:
        return "refused"
    except NotComparable:
        return "error"


@pytest.mark.parametrize("trailing", [True, False], ids=["5.x", "4.9 cuts the last separator"])
def test_expressions_evaluate_as_in_rocketmq(trailing):
    wrong = []
    for expression, properties, expected in CASES:
        raw = format_properties(properties)
        raw = raw if trailing else raw[:-1]
        if answer(expression, raw) != expected:
            wrong.append((expression, properties, expected, answer(expression, raw)))
        elif expected != "refused" and compile_filter(expression).matches(raw) != (expected == "true"):
            wrong.append((expression, properties, expected, "matches() differs"))
    assert wrong == []


def test_the_cases_cover_every_answer():
    answers = [expected for _, _, expected in CASES]
    assert len(answers) > 500
    assert all(answers.count(word) > 50 for word in ("true", "false", "null", "error", "refused"))
