"""A misspelt or repeated query parameter is refused and named, not ignored."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.anyio
PULL = "/v1/topics/orders/queues/broker-a/0/messages"


@pytest.mark.parametrize(
    "path",
    [
        PULL,
        "/v1/messages?topic=orders",
        "/v1/topics",
        "/v1/groups/g1/lag",
        "/health/ready",
        "/v1/topics/orders",
    ],
)
async def test_an_unknown_parameter_is_400_and_named(client, path):
    answer = await client.get(path + ("&" if "?" in path else "?") + "Offset=3")
    assert (answer.status_code, answer.json()["field"]) == (400, "Offset")


@pytest.mark.parametrize(
    ("path", "field"),
    [
        (PULL + "?offset=1&offset=2", "offset"),
        ("/v1/messages?topic=orders&topic=orders", "topic"),
        ("/v1/topics?system=true&system=false", "system"),
    ],
)
async def test_a_parameter_that_stands_twice_is_400_and_named(client, path, field):
    answer = await client.get(path)
    assert (answer.status_code, answer.json()["field"]) == (400, field)


@pytest.mark.parametrize(
    "path",
    [
        PULL + "?offset=0&max=1&waitSeconds=0&filter=a&encoding=base64",
        "/v1/messages?topic=orders&key=&from=0&to=1&max=1",
        "/v1/topics?system=true",
        "/v1/groups/g1/lag?topic=orders",
        "/health/ready?brokers=1",
    ],
)
async def test_every_parameter_there_is_passes(client, path):
    assert (await client.get(path)).status_code == 200
