"""The description of each call: decoding enforces what the OpenAPI document says about a field."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from gateway_problem_check import check

from gateway.messages.property_names import RESERVED

pytestmark = pytest.mark.anyio
PATHS = {
    "topic": "orders", "group": "g1", "broker": "broker-a", "queueId": "0", "id": "a", "name": "r", "path": "report.html",
}  # fmt: skip


@pytest.fixture
def client(refusing_client):
    return refusing_client


def numbers(schema: dict[str, Any]) -> Iterator[tuple[int, str]]:
    """Return the values just outside the bounds of a number, each with its bound."""
    for one in [schema, *schema.get("anyOf", ())]:
        if one.get("type") in {"integer", "number"}:
            if "minimum" in one:
                yield one["minimum"] - 1, str(one["minimum"])
            if "maximum" in one:
                yield one["maximum"] + 1, str(one["maximum"])


def url(path: str) -> str:
    for name, value in PATHS.items():
        path = path.replace(f"{{{name}}}", value)
    return path


async def test_a_number_just_outside_its_described_bounds_is_refused_by_name(client):
    document = (await client.get("/openapi.json")).json()
    schemas = document["components"]["schemas"]
    tried = 0
    for path, calls in document["paths"].items():
        for method, call in calls.items():
            needed = {
                one["name"]: "orders"
                for one in call.get("parameters", ())
                if one["required"] and one["in"] == "query"
            }
            for one in call.get("parameters", ()):
                for value, bound in numbers(one["schema"]) if one["in"] == "query" else ():
                    answer = await client.request(
                        method, url(path), params=needed | {one["name"]: str(value)}
                    )
                    assert bound in check(answer, 400, one["name"])["limit"]
                    tried += 1
            body = (
                call.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            )
            name = (body.get("anyOf") or [body])[0].get("$ref", "").rsplit("/", 1)[-1]
            for field, schema in schemas.get(name, {}).get("properties", {}).items():
                for value, bound in numbers(schema):
                    answer = await client.request(method, url(path), json={field: value})
                    assert bound in check(answer, 400, field)["limit"], (path, field)
                    tried += 1
    assert tried > 40


async def test_every_call_has_an_id_of_its_own(client):
    document = (await client.get("/openapi.json")).json()
    ids = [call["operationId"] for calls in document["paths"].values() for call in calls.values()]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    ("method", "path", "body", "choices"),
    [
        ("PUT", "/v1/topics/t1", {"perm": "x"}, "'r', 'rw' or 'w'"),
        ("GET", "/v1/tasks?state=x", None, "'cancelled', 'done', 'failed' or 'running'"),
        (
            "POST",
            "/v1/topics/orders/groups/g1/messages:receive",
            {"filter": {"type": "x", "expression": "a"}},
            "'sql92' or 'tag'",
        ),
        (
            "PUT",
            "/v1/definitions",
            {"groups": [{"group": "g", "retryPolicy": {"type": "x"}}]},
            "'list' or 'exponential'",
        ),
    ],
)
async def test_a_value_that_is_none_of_several_names_those(client, method, path, body, choices):
    problem = check(await client.request(method, path, json=body), 400)
    assert (problem["detail"], problem["limit"]) == (f"the value may be {choices}", choices)


@pytest.mark.parametrize(
    ("name", "is_allowed"),
    [("color", True), ("", False), ("__a", False), ("a\x01", False), ("a\x02b", False)]
    + [(name, False) for name in sorted(RESERVED)],
)
async def test_the_document_says_which_names_a_property_may_have(client, name, is_allowed):
    document = (await client.get("/openapi.json")).json()
    described, _null = document["components"]["schemas"]["MessageIn"]["properties"]["properties"]["anyOf"]
    rules = described["propertyNames"]
    is_described = re.search(rules["pattern"], name) is not None and name not in rules["not"]["enum"]
    body = {"messages": [{"body": "x", "properties": {name: "v"}}]}
    answer = await client.post("/v1/topics/orders/messages", json=body)
    assert (answer.status_code == 200) == is_described == is_allowed


async def test_the_document_can_be_asked_for_by_its_head(client):
    whole, head = await client.get("/openapi.json"), await client.head("/openapi.json")
    assert head.status_code == whole.status_code == 200
    assert head.headers["content-length"] == whole.headers["content-length"]
    assert "head" not in whole.json()["paths"].get("/openapi.json", {})


async def test_null_stands_for_a_body_that_is_not_needed_and_for_no_other(client):
    assert (await client.put("/v1/groups/g1", json=None)).status_code == 200
    headers = {"content-type": "application/json"}
    assert (await client.put("/v1/groups/g1", content=b" null ", headers=headers)).status_code == 200
    check(await client.put("/v1/groups/g1/offsets", content=b"null", headers=headers), 400, "body")
    check(await client.put("/v1/groups/g1/offsets"), 400, "body")


def test_a_gateway_loads_no_second_schema_library():
    program = "import sys, gateway.__main__; print(*sorted({'fastapi', 'pydantic', 'starlette'} & set(sys.modules)))"
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert ran.stdout.split() == []
