"""A refused or missing thing is explained, before anything is done."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway.admin.schemas import KEY_PATTERN, VALUE_PATTERN
from gateway.requests import patterns
from gateway.requests.fields import GROUP_PATTERN, ID_PATTERN, TOPIC_PATTERN

pytestmark = pytest.mark.anyio


async def test_too_few_stores_are_counted_in_the_answer_of_readiness(client):
    answer = await client.get("/health/ready?brokers=5")
    assert (answer.status_code, answer.json()["stores"]["*"]) == (503, "1 of 5 stores are registered")


async def test_an_id_that_is_nobodys_offset_id_hints_at_the_topic(client):
    sent = await client.post("/v1/topics/orders/messages", json={"messages": [{"body": "x"}]})
    unique_id = sent.json()["results"][0]["messageId"]
    answer = await client.get(f"/v1/messages/{unique_id}")
    assert answer.status_code == 404
    assert "?topic=" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("topics", "status"),
    [(["fine", "broker-a"], 403), (["fine", "fine"], 400), (["fine", "DefaultCluster"], 403)],
)
async def test_definitions_are_checked_whole_before_any_is_applied(client, topics, status):
    body = {"topics": [{"topic": topic} for topic in topics]}
    assert (await client.put("/v1/definitions", json=body)).status_code == status
    assert (await client.get("/v1/topics/fine")).status_code == 404


async def test_the_description_names_when_to_come_back(client):
    document = (await client.get("/openapi.json")).json()
    for path in document["paths"].values():
        for operation in path.values():
            assert "400" in operation["responses"]
            for status in {"429", "503", "507"} & operation["responses"].keys():
                assert "Retry-After" in operation["responses"][status]["headers"]


async def test_the_names_of_a_map_are_described_by_their_pattern(client):
    schemas = (await client.get("/openapi.json")).json()["components"]["schemas"]
    settings = schemas["SettingsBody"]["properties"]["settings"]
    assert settings["propertyNames"]["pattern"] == KEY_PATTERN
    assert settings["additionalProperties"]["pattern"] == VALUE_PATTERN


LITERAL = re.compile(r'pattern=r"([^"]+)"')


def test_every_pattern_that_refuses_something_has_words():
    source = Path(patterns.__file__).parents[1]
    literals = {found for file in source.rglob("*.py") for found in LITERAL.findall(file.read_text())}
    assert len(literals) >= 3
    named = {TOPIC_PATTERN, GROUP_PATTERN, ID_PATTERN, KEY_PATTERN, VALUE_PATTERN}
    named |= {TOPIC_PATTERN.replace("{1,", "{0,"), GROUP_PATTERN.replace("{1,", "{0,")}
    assert [pattern for pattern in literals | named if "pattern" in patterns.pattern_text(pattern)] == []
    assert patterns.pattern_text("^a|b$") == "the pattern ^a|b$"


@pytest.mark.parametrize(
    ("method", "path", "body", "rule"),
    [
        ("PUT", "/v1/topics/a b", {}, "1 to 127 characters: letters a to z and A to Z, digits, and % | _ -"),
        ("PUT", "/v1/groups/a!", {}, "1 to 120 characters: letters a to z and A to Z, digits, and % | _ -"),
        ("GET", "/v1/messages?topic=orders&key=a%20b", None, "any characters but blanks"),
        ("GET", "/v1/messages/a@b", None, "1 or more characters: letters a to z and A to Z, digits, and . _ ~ -"),
        ("POST", "/v1/topics/orders/transactions", {"producerGroup": "a b", "message": {"body": "x"}}, "1 to 120 characters: letters"),
    ],
)  # fmt: skip
async def test_the_problem_of_a_bad_name_lists_the_allowed_characters(client, method, path, body, rule):
    answer = await client.request(method, path, json=body)
    problem = answer.json()
    assert answer.status_code == 400, problem
    assert rule in problem["detail"]
    assert problem["limit"].startswith(rule)
    assert "^" not in answer.text
