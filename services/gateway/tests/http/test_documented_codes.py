"""The table of errors in docs/http-api.md has every code that the gateway can return, and no other."""

import re
from pathlib import Path

from gantry_wire.codes import ResponseCode
from gateway.http import problems

ROOT = Path(__file__).parents[4]
BETWEEN_SERVICES = {"FENCED", "FIRST_UNKNOWN", "HELD", "RESULT_UNKNOWN"}
"""Codes between stores, schedulers and checkers, or codes that the gateway translates."""
BY_VARIABLE = re.compile(r'"gantryCode": "([A-Z_]+)"')
IN_A_PROBLEM = re.compile(r'(?:Problem|unprocessable)\(\s*(?:\d+,\s*)?"([A-Z_]+)"')


def documented() -> set[str]:
    text = (ROOT / "docs/http-api.md").read_text()
    table = text[text.index("| status | code | when |") :].split("\n\n", 1)[0]
    return {code for line in table.splitlines() for code in re.findall(r"`([A-Z_]+)`", line.split("|")[2])}


def source_of(folder: str) -> str:
    return "\n".join(path.read_text() for path in sorted((ROOT / folder).rglob("*.py")))


def test_every_code_of_a_store_or_the_gateway_is_in_the_table() -> None:
    in_the_gateway = set(IN_A_PROBLEM.findall(source_of("services/gateway/src")))
    by_stores = set(BY_VARIABLE.findall(source_of("services/broker-store/src"))) - BETWEEN_SERVICES
    assert len(in_the_gateway) > 8
    assert len(by_stores) > 5
    known = {ResponseCode(code).name for code in problems._BY_CODE} | set(problems._BY_GANTRY_CODE)
    slaves = {"SLAVE_NOT_AVAILABLE", "FLUSH_SLAVE_TIMEOUT"}  # our stores have no slaves
    assert (in_the_gateway | by_stores | known) - slaves - documented() == set()


def test_every_code_in_the_table_is_in_the_source() -> None:
    source = source_of("services/gateway/src") + source_of("services/broker-store/src") + source_of("libs")
    assert {code for code in documented() if not re.search(rf"\b{code}\b", source)} == set()
