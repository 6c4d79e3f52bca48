"""Data of a broker that is away is reported as missing, never as nonexistent."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.anyio
SEARCHES = ["key=k", "from=0", "key=nobody-has-it"]


@pytest.fixture(params=["with a list of its queues", "without"])
async def two(request, pair, pair_client):
    """A topic on two brokers, broker-b with a message, both seen by the gateway."""
    if request.param != "without":
        await pair_client.put("/v1/topics/orders", json={"readQueues": 4, "writeQueues": 4})
    message = {"body": "x", "broker": "broker-b", "queueId": 0, "keys": ["k"]}
    assert (
        await pair_client.post("/v1/topics/orders/messages", json={"messages": [message]})
    ).status_code == 200
    await pair_client.get("/v1/brokers")
    return pair_client


@pytest.mark.parametrize("search", SEARCHES)
async def test_a_search_while_a_broker_of_the_topic_is_gone_is_503_and_names_it(two, pair, search):
    path = f"/v1/messages?topic=orders&{search}"
    assert (await two.get(path)).status_code == 200
    pair.kill("broker-b")
    await two.get("/v1/topics/orders")
    for _ in range(2):
        answer = await two.get(path)
        assert (answer.status_code, answer.json()["missing"]) == (503, ["broker-b"])
        assert answer.json()["retryable"]


@pytest.mark.parametrize("search", ["?topic=orders&key=k", "/{id}?topic=orders"])
async def test_a_search_with_a_route_that_lacks_a_broker_which_is_back_is_not_answered_as_complete(
    two, pair, search
):
    found = (await two.get("/v1/messages?topic=orders&key=k")).json()["messages"]
    path = "/v1/messages" + search.format(id=found[0]["messageId"])
    pair.kill("broker-b")
    await two.get(path)  # broker-b does not answer: the route is read again, without it
    await two.get(path)
    pair.revive("broker-b")
    answer = await two.get(path)
    assert (answer.status_code, answer.json()["missing"]) == (503, ["broker-b"])
    again = await two.get(path)
    assert (again.status_code, found[0]["messageId"] in again.text) == (200, True)


async def test_a_search_by_id_finds_what_is_there_and_is_503_otherwise(two, pair):
    sent = {"messages": [{"body": "y", "broker": "broker-a"}]}
    here = (await two.post("/v1/topics/orders/messages", json=sent)).json()["results"][0]["messageId"]
    pair.kill("broker-b")
    await two.get("/v1/brokers")
    await two.get("/v1/topics/orders")
    assert (await two.get(f"/v1/messages/{here}?topic=orders")).json()["body"] == "y"
    assert (await two.get("/v1/messages/NOBODY?topic=orders")).json().get("missing") == ["broker-b"]


async def test_a_topic_names_the_broker_that_is_gone_from_its_route(two, pair):
    pair.kill("broker-b")
    await two.get("/v1/topics/orders")
    shown = (await two.get("/v1/topics/orders")).json()
    assert shown["missing"] == ["broker-b"]
    assert {queue["broker"] for queue in shown["queues"]} == {"broker-a"}


async def test_a_topic_on_other_brokers_is_complete_while_a_broker_is_away(pair, pair_client):
    del pair.stores["broker-b"].kept_topics["orders"]
    pair.kept_values["ORDER_TOPIC_CONFIG", "orders"] = "broker-a:4"
    assert (await pair_client.get("/v1/topics/orders")).json()["missing"] == []
    pair.kill("broker-b")
    assert (await pair_client.get("/v1/topics/orders")).json()["missing"] == []
    assert (await pair_client.get("/v1/messages?topic=orders&key=k")).status_code == 200


async def test_without_nameservers_the_brokers_of_the_route_are_asked_themselves(pair, pair_client):
    assert (await pair_client.get("/v1/messages?topic=orders&key=k")).status_code == 200
    pair.silent_nameservers = set(pair.nameservers)
    assert (await pair_client.get("/v1/messages?topic=orders&key=k")).status_code == 200
