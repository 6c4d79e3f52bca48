"""What was refused or not found says why, before anything is done."""

from __future__ import annotations

import pytest

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
