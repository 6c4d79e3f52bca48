"""Every code of the gateway has a code of the protocol, and none of them looks like success."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gantry_wire.codes import ResponseCode
from gateway.grpc.codes import CODES, Refused, code_of, status, status_of
from gateway.grpc.proto.enums import Code
from gateway.http import problems
from gateway.http.problems import Problem, broker_away, invalid, topic_missing, unknown_whether_stored
from gateway.ports.stores import StoreRefused
from gateway.requests.checks import group_of, sendable, topic_of

ROOT = Path(__file__).parents[4]
SUCCESS = {Code.CODE_UNSPECIFIED, Code.OK, Code.MULTIPLE_RESULTS, Code.MESSAGE_NOT_FOUND}
IN_A_PROBLEM = re.compile(r'(?:Problem|unprocessable)\(\s*(?:\d+,\s*)?"([A-Z_]+)"')
BY_NAME = re.compile(r"Problem\(\s*\d+,\s*([A-Z_]+),")


def codes_of_the_gateway() -> set[str]:
    source = "\n".join(path.read_text() for path in (ROOT / "services/gateway/src").rglob("*.py"))
    assert set(BY_NAME.findall(source)) == {"CONFLICT", "FILTER_CONFLICT"}
    by_store = {ResponseCode(code).name for code in problems._BY_CODE} | set(problems._BY_GANTRY_CODE)
    return (
        set(IN_A_PROBLEM.findall(source)) | by_store | {"ACCESS_CONFLICT", "FILTER_CONFLICT", "UNAUTHORIZED"}
    )


def documented() -> set[str]:
    text = (ROOT / "docs/http-api.md").read_text()
    table = text[text.index("| status | code | when |") :].split("\n\n", 1)[0]
    return {code for line in table.splitlines() for code in re.findall(r"`([A-Z_]+)`", line.split("|")[2])}


def test_every_code_of_the_gateway_and_its_stores_is_listed_and_no_other() -> None:
    slaves = {"SLAVE_NOT_AVAILABLE", "FLUSH_SLAVE_TIMEOUT"}  # our stores have no slaves: not documented
    assert len(codes_of_the_gateway()) > 30
    assert set(CODES) == codes_of_the_gateway() | documented()
    assert set(CODES) - slaves == documented()


def test_the_guide_lists_every_code() -> None:
    text = (ROOT / "docs/grpc.md").read_text().partition("## Codes")[2]
    rows = [line.split("|")[1:4] for line in text.splitlines() if re.match(r"\| \d{5} ", line)]
    listed = {
        name: Code(int(number))
        for number, shown, names in rows
        for name in re.findall("`([A-Z_]+)`", names)
        if Code(int(number)).name == shown.strip()
    }
    assert listed == CODES


def test_no_problem_looks_like_success() -> None:
    assert SUCCESS.isdisjoint(CODES.values())
    for status_code in (400, 404, 409, 429, 500, 503, 504):
        assert code_of(Problem(status_code, "CODE_99", "")) not in SUCCESS


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: topic_of("a b"), Code.ILLEGAL_TOPIC),
        (lambda: topic_of(""), Code.ILLEGAL_TOPIC),
        (lambda: sendable("SCHEDULE_TOPIC_XXXX"), Code.ILLEGAL_TOPIC),
        (lambda: group_of("a b"), Code.ILLEGAL_CONSUMER_GROUP),
    ],
)
def test_the_field_of_a_refused_request_selects_the_code(call, code) -> None:
    with pytest.raises(Problem) as caught:
        call()
    assert code_of(caught.value) == code


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        (topic_missing("t"), Code.TOPIC_NOT_FOUND),
        (broker_away("b"), Code.INTERNAL_SERVER_ERROR),
        (unknown_whether_stored("b"), Code.PROXY_TIMEOUT),
        (invalid("anything", "x"), Code.BAD_REQUEST),
        (problems.refused(StoreRefused(ResponseCode.SYSTEM_BUSY, "")), Code.TOO_MANY_REQUESTS),
        (problems.refused(StoreRefused(ResponseCode.NO_PERMISSION, "")), Code.FORBIDDEN),
        (problems.refused(StoreRefused(ResponseCode.MESSAGE_ILLEGAL, "")), Code.BAD_REQUEST),
        (problems.refused(StoreRefused(ResponseCode.SYSTEM_ERROR, "")), Code.INTERNAL_SERVER_ERROR),
        (Problem(413, "MESSAGE_ILLEGAL", "", field="body"), Code.MESSAGE_BODY_TOO_LARGE),
        (Problem(409, "MADE_UP", ""), Code.BAD_REQUEST),
        (Problem(503, "MADE_UP", ""), Code.INTERNAL_SERVER_ERROR),
    ],
)
def test_problems_have_the_codes_of_rocketmq(problem, code) -> None:
    assert code_of(problem) == code


def test_a_status_has_a_text() -> None:
    assert status(Code.OK).message == "OK"
    assert status(Code.BAD_REQUEST, "no topic").message == "no topic"
    missing = status_of(topic_missing("t"))
    assert (missing.code, missing.message[:7]) == (Code.TOPIC_NOT_FOUND, "topic t")
    refused = status_of(Refused(Code.ILLEGAL_TOPIC, "no"))
    assert (refused.code, refused.message) == (Code.ILLEGAL_TOPIC, "no")
