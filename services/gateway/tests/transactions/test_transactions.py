"""Transactions over HTTP: begin, decide, list, show, and the checks of a producer group."""

from __future__ import annotations

import asyncio

import pytest
from gateway_problem_check import check

from gateway.ports.stores import PeerAway, StoreRefused

pytestmark = pytest.mark.anyio
BEGIN = {
    "producerGroup": "shop",
    "message": {"body": "paid", "tag": "a", "keys": ["o-1"], "properties": {"x": "1"}},
}


async def begin(client, body=BEGIN, topic="orders"):
    answer = await client.post(f"/v1/topics/{topic}/transactions", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_begin_stores_a_half_and_names_the_transaction(client, system):
    made = await begin(client)
    assert made["transactionId"] == f"broker-a.{made['messageId']}"
    assert (made["broker"], made["durability"]) == ("broker-a", "fsync")
    ((_, half),) = system.transactions.halves().items()
    named = half.property_map()
    assert (named["TRAN_MSG"], named["PGROUP"], named["TAGS"], named["x"]) == ("true", "shop", "a", "1")
    assert half.body == b"paid"


async def test_the_time_before_the_first_check_may_be_longer(client, system):
    await begin(client, {**BEGIN, "checkAfterSeconds": 60})
    ((_, half),) = system.transactions.halves().items()
    assert half.property_map()["CHECK_IMMUNITY_TIME_IN_SECONDS"] == "60"


async def test_a_keyed_begin_again_is_the_same_transaction(client, system):
    body = {**BEGIN, "message": {**BEGIN["message"], "idempotencyKey": "k"}}
    first, again = await begin(client, body), await begin(client, body)
    assert again == {**first, "duplicate": True}
    other = {**body, "message": {**body["message"], "body": "more"}}
    check(await client.post("/v1/topics/orders/transactions", json=other), 422, "message.idempotencyKey")
    assert len(system.transactions.halves()) == 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "producerGroup"),
        ({"producerGroup": "g"}, "message"),
        ({"producerGroup": "a b", "message": {"body": "x"}}, "producerGroup"),
        ({"producerGroup": "g", "message": {}}, "message.body"),
        ({"producerGroup": "g", "message": {"body": "x", "tag": "a||b"}}, "message.tag"),
        (
            {"producerGroup": "g", "message": {"body": "x", "properties": {"TRAN_MSG": "true"}}},
            "message.properties.TRAN_MSG",
        ),
        ({"producerGroup": "g", "message": {"body": "x"}, "more": 1}, "more"),
        ({"producerGroup": "g", "message": {"body": "x"}, "checkAfterSeconds": 0}, "checkAfterSeconds"),
    ],
)
async def test_a_wrong_begin_is_400_and_names_the_field(client, system, body, field):
    check(await client.post("/v1/topics/orders/transactions", json=body), 400, field)
    assert system.transactions.halves() == {}


async def test_a_begin_into_no_topic_or_a_system_topic(client):
    check(await client.post("/v1/topics/none/transactions", json=BEGIN), 404, "topic")
    check(await client.post("/v1/topics/SCHEDULE_TOPIC_XXXX/transactions", json=BEGIN), 403, "topic")


@pytest.mark.parametrize(("verb", "status"), [("commit", "committed"), ("rollback", "rolledBack")])
async def test_a_decision_needs_no_body_and_is_repeatable(client, verb, status):
    made = await begin(client)
    for _ in range(2):
        answer = await client.post(f"/v1/transactions/{made['transactionId']}:{verb}")
        assert answer.status_code == 200
        assert answer.json() == {
            "status": status, "transactionId": made["transactionId"], "topic": "orders", "producerGroup": "shop",
        }  # fmt: skip


async def test_the_opposite_decision_is_409(client):
    made = await begin(client)
    await client.post(f"/v1/transactions/{made['transactionId']}:commit")
    problem = check(await client.post(f"/v1/transactions/{made['transactionId']}:rollback"), 409, "id")
    assert (problem["code"], problem["retryable"]) == ("TRANSACTION_DECIDED", False)


async def test_a_reason_and_its_author_are_stored_with_the_decision(client, system):
    made = await begin(client)
    await client.post(
        f"/v1/transactions/{made['transactionId']}:rollback",
        json={"reason": "fraud"},
        headers={"X-Request-Id": "r-7"},
    )
    (order,) = system.transactions.orders
    assert order.reason == "fraud"
    assert order.by.endswith("r-7")
    long = {"reason": "x" * 1025}
    check(await client.post(f"/v1/transactions/{made['transactionId']}:rollback", json=long), 400, "reason")


@pytest.mark.parametrize("text", ["broker-a.NONE", "nobody.U1", "broker-a", "a.b.c", "broker-a.~4", "~"])
@pytest.mark.parametrize("call", ["POST :commit", "POST :rollback", "GET "])
async def test_an_unknown_transaction_is_404(client, text, call):
    method, _, verb = call.partition(" ")
    problem = check(await client.request(method, f"/v1/transactions/{text}{verb}"), 404, "id")
    assert problem["code"] == "QUERY_NOT_FOUND"


@pytest.mark.parametrize("text", ["a%20b.c", "%24"])
async def test_an_id_of_other_letters_is_400(client, text):
    check(await client.post(f"/v1/transactions/{text}:commit"), 400, "id")


async def test_while_its_broker_is_away_a_decision_is_503_and_may_be_repeated(pair_client, pair):
    made = await begin(pair_client)
    pair.kill(made["broker"])
    problem = check(await pair_client.post(f"/v1/transactions/{made['transactionId']}:commit"), 503)
    assert (problem["retryable"], problem["missing"]) == (True, [made["broker"]])
    check(await pair_client.get(f"/v1/transactions/{made['transactionId']}"), 503)


async def test_a_lost_response_is_503_and_a_retry_returns_the_result(client, system):
    made = await begin(client)
    system.transactions.lost = True
    assert check(await client.post(f"/v1/transactions/{made['transactionId']}:commit"), 503)["retryable"]
    assert (await client.post(f"/v1/transactions/{made['transactionId']}:commit")).status_code == 200


async def test_a_refusal_of_the_store_is_returned(client, system):
    made = await begin(client)
    system.transactions.refuse = StoreRefused(14, "the disk is full", "DISK_FULL")
    check(await client.post(f"/v1/transactions/{made['transactionId']}:commit"), 507)


async def test_a_transaction_is_shown_with_its_state(client, system):
    made = await begin(client)
    system.transactions.checks[made["messageId"]] = 2
    system.clocks.advance(41.5)
    path = f"/v1/transactions/{made['transactionId']}"
    shown = (await client.get(path)).json()
    assert (shown["state"], shown["topic"], shown["producerGroup"]) == ("open", "orders", "shop")
    assert (shown["ageMs"], shown["checks"], shown["broker"]) == (41_500, 2, "broker-a")
    assert shown["begunTimestamp"].endswith("Z")
    await client.post(f"{path}:rollback")
    decided = (await client.get(path)).json()
    assert (decided["state"], decided["topic"], decided["producerGroup"]) == ("rolledBack", "orders", "shop")


async def test_undecided_transactions_of_all_brokers_are_listed(pair_client, pair):
    made = [await begin(pair_client) for _ in range(6)]
    pair.transactions.parked.add(made[1]["messageId"])
    await pair_client.post(f"/v1/transactions/{made[0]['transactionId']}:commit")
    listed = (await pair_client.get("/v1/transactions")).json()
    assert {one["transactionId"] for one in listed["transactions"]} == {
        one["transactionId"] for one in made[1:]
    }
    assert (listed["truncated"], listed["missing"]) == (False, [])
    assert {one["broker"] for one in listed["transactions"]} == {one["broker"] for one in made[1:]}
    parked = (await pair_client.get("/v1/transactions?state=parked")).json()["transactions"]
    assert [one["state"] for one in parked] == ["parked"]
    one = (await pair_client.get("/v1/transactions?max=1")).json()
    assert (len(one["transactions"]), one["truncated"]) == (1, True)
    assert (await pair_client.get("/v1/transactions?producerGroup=other")).json()["transactions"] == []


async def test_a_broker_without_a_checker_is_missing_in_the_list(pair_client, pair):
    pair.transactions.holders["broker-b"] = None
    listed = (await pair_client.get("/v1/transactions")).json()
    assert listed["missing"] == ["broker-b"]
    pair.transactions.holders["broker-a"] = None
    pair.clocks.advance(10)
    problem = check(await pair_client.get("/v1/transactions"), 503)
    assert problem["missing"] == ["broker-a", "broker-b"]
    assert (problem["retryable"], problem["retryAfterMs"] > 0) == (True, True)
    assert "no txn-checker works for broker broker-a at the moment" in problem["detail"]


async def test_queries_of_the_list_are_checked(client):
    check(await client.get("/v1/transactions?state=done"), 400, "state")
    check(await client.get("/v1/transactions?max=0"), 400, "max")
    check(await client.get("/v1/transactions?broker=nobody"), 404, "broker")


async def test_checks_are_returned_with_the_sent_message_until_they_are_decided(client, system):
    made = await begin(client)
    system.transactions.checker.ask("broker-a", made["messageId"], 2)
    for _ in range(2):
        answer = await client.post("/v1/producerGroups/shop/checks:receive")
        (one,) = answer.json()["checks"]
        assert (one["transactionId"], one["attempt"]) == (made["transactionId"], 2)
        message = one["message"]
        assert (message["topic"], message["body"], message["tag"], message["keys"]) == (
            "orders",
            "paid",
            "a",
            ["o-1"],
        )
        assert message["properties"] == {"x": "1"}
    await client.post(f"/v1/transactions/{made['transactionId']}:commit")
    assert (await client.post("/v1/producerGroups/shop/checks:receive")).json() == {"checks": []}


async def test_a_check_that_comes_ends_the_wait(client, system):
    made = await begin(client)
    asked = asyncio.ensure_future(
        client.post("/v1/producerGroups/shop/checks:receive", json={"waitSeconds": 30, "maxChecks": 5})
    )
    await asyncio.sleep(0.05)
    assert not asked.done()
    system.transactions.checker.ask("broker-a", made["messageId"])
    assert len((await asyncio.wait_for(asked, 30)).json()["checks"]) == 1
    assert system.transactions.checker.queries[-1].max == 5


async def test_without_a_checker_the_call_is_held_and_then_empty(client, system):
    system.transactions.holders["broker-a"] = None
    started = asyncio.get_running_loop().time()
    answer = await client.post("/v1/producerGroups/shop/checks:receive", json={"waitSeconds": 0.6})
    assert (answer.status_code, answer.json()) == (200, {"checks": []})
    assert asyncio.get_running_loop().time() - started >= 0.6


async def test_a_held_receive_finds_the_checker_that_takes_over(client, system):
    made = await begin(client)
    system.transactions.checker.ask("broker-a", made["messageId"])
    system.transactions.holders["broker-a"] = None
    asked = asyncio.ensure_future(
        client.post("/v1/producerGroups/shop/checks:receive", json={"waitSeconds": 30})
    )
    await asyncio.sleep(0.1)
    del system.transactions.holders["broker-a"]
    assert (await asyncio.wait_for(asked, 30)).json()["checks"]


async def test_a_checker_that_is_away_counts_as_none(client, system):
    system.transactions.checker.away = True
    answer = await client.post("/v1/producerGroups/shop/checks:receive", json={"waitSeconds": 0.3})
    assert answer.json() == {"checks": []}


async def test_a_broker_that_is_away_does_not_hide_the_checks_of_another(pair_client, pair):
    made = await begin(pair_client)
    other = next(name for name in pair.stores if name != made["broker"])
    pair.stores[other].away = PeerAway(other, False, "not connected")
    pair.transactions.checker.ask(made["broker"], made["messageId"])
    assert (await pair_client.post("/v1/producerGroups/shop/checks:receive")).json()["checks"]


async def test_a_stopping_gateway_holds_no_receive(system, connect):
    gateway = system.gateway()
    async with connect(gateway) as client:
        asked = asyncio.ensure_future(
            client.post("/v1/producerGroups/shop/checks:receive", json={"waitSeconds": 30})
        )
        await asyncio.sleep(0.05)
        gateway.drain()
        assert (await asyncio.wait_for(asked, 25)).json() == {"checks": []}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"waitSeconds": 31}, "waitSeconds"),
        ({"waitSeconds": -1}, "waitSeconds"),
        ({"maxChecks": 0}, "maxChecks"),
        ({"wait": 1}, "wait"),
    ],
)
async def test_bounds_of_receive(client, body, field):
    check(await client.post("/v1/producerGroups/shop/checks:receive", json=body), 400, field)


async def test_the_description_is_complete(client):
    document = (await client.get("/openapi.json")).json()
    calls = {
        (path, method): call
        for path, methods in document["paths"].items()
        for method, call in methods.items()
        if "transactions" in call.get("tags", [])
    }
    assert len(calls) == 6
    for (path, method), call in calls.items():
        assert call["responses"]["200"]["content"]["application/json"]["example"], (path, method)
        if method == "post":
            assert call["requestBody"]["content"]["application/json"]["example"], path


async def test_a_commit_whose_topic_is_gone_names_the_topic_and_is_no_unknown_transaction(client, system):
    made = await begin(client)
    words = "the transaction is still open: topic[orders] not exist; create the topic again and commit, or roll back"
    system.transactions.refuse = StoreRefused(17, words)
    problem = check(await client.post(f"/v1/transactions/{made['transactionId']}:commit"), 409, "topic")
    assert (problem["code"], problem["retryable"], problem["detail"]) == ("TOPIC_NOT_EXIST", False, words)
