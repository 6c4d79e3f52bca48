"""/v1/schedules and /v1/parked: definite results, over all brokers, also during a takeover of a scheduler."""

from __future__ import annotations

import asyncio

import pytest
from gateway_memory_scheduler import MemoryScheduler
from gateway_problem_check import check

from gateway.ports.stores import PeerAway, StoreRefused

pytestmark = pytest.mark.anyio


@pytest.fixture
def scheduler(system) -> MemoryScheduler:
    return system.schedulers.one


async def test_a_cancelled_message_is_reported_as_gone(client, scheduler):
    scheduler.add("m1")
    answer = await client.delete("/v1/schedules/m1")
    assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
    assert not scheduler.waiting
    problem = check(await client.delete("/v1/schedules/m1"), 409, "id")
    assert (problem["code"], problem["retryable"]) == ("ALREADY_DELIVERED", False)


async def test_an_unknown_schedule_is_404_after_every_broker_denied_it(pair_client, pair):
    pair.schedulers.one.add("m1", "broker-b")
    check(await pair_client.delete("/v1/schedules/none"), 404, "id")
    assert {ask.broker for _name, ask in pair.schedulers.one.calls} == {"broker-a", "broker-b"}
    assert (await pair_client.delete("/v1/schedules/m1")).json()["broker"] == "broker-b"


@pytest.mark.parametrize(
    ("call", "path"),
    [("DELETE", "/v1/schedules/m2"), ("POST", "/v1/schedules/m2:deliverNow"), ("GET", "/v1/schedules")],
)
async def test_a_missing_index_is_503(client, scheduler, call, path):
    scheduler.unfinished = {"broker-a"}
    problem = check(await client.request(call, path), 503)
    assert (problem["code"], problem["retryable"], problem["missing"]) == (
        "INDEX_BUILDING",
        True,
        ["broker-a"],
    )


async def test_the_call_waits_for_an_index_that_is_ready_in_time(client, scheduler):
    scheduler.unfinished = {"broker-a"}
    asked = asyncio.ensure_future(client.delete("/v1/schedules/m1"))
    await asyncio.sleep(0.05)
    scheduler.unfinished.clear()
    scheduler.add("m1")
    assert (await asked).json()["status"] == "cancelled"


@pytest.mark.parametrize("path", ["/v1/schedules", "/v1/parked"])
async def test_a_list_waits_while_the_scheduler_has_lost_the_claims(client, scheduler, path):
    scheduler.add("m1")
    scheduler.parked = list(scheduler.waiting)
    scheduler.serves.clear()
    asked = asyncio.ensure_future(client.get(path))
    await asyncio.sleep(0.05)
    scheduler.serves.add("broker-a")
    assert [one["messageId"] for one in (await asked).json()["schedules"]] == ["m1"]


async def test_the_call_finds_the_scheduler_that_took_over(client, system, scheduler):
    scheduler.add("m1")
    system.schedulers.holders["broker-a"] = None
    asked = asyncio.ensure_future(client.delete("/v1/schedules/m1"))
    await asyncio.sleep(0.05)
    del system.schedulers.holders["broker-a"]
    assert (await asked).status_code == 200


async def test_the_address_of_a_dead_scheduler_is_looked_up_again(client, system, scheduler):
    scheduler.add("m1")
    scheduler.add("m2")
    assert (await client.delete("/v1/schedules/m1")).status_code == 200
    other = system.schedulers.by_address["127.0.0.1:10922"] = system.schedulers.by_address.pop(
        "127.0.0.1:10921"
    )
    system.schedulers.default = "127.0.0.1:10922"
    assert other.waiting
    assert (await client.delete("/v1/schedules/m2")).status_code == 200


async def test_the_holder_is_cached_between_calls(client, system, scheduler):
    for _ in range(5):
        await client.get("/v1/schedules")
    assert system.schedulers.asked == 1


@pytest.mark.parametrize(
    "lost", [StoreRefused(3, "request type 9011 not supported"), PeerAway("x", True, "no answer")]
)
async def test_a_scheduler_that_lost_its_claim_is_looked_up_again(client, scheduler, lost):
    scheduler.add("m1")
    scheduler.failures = [lost]
    assert (await client.delete("/v1/schedules/m1")).status_code == 200


@pytest.mark.parametrize(("code", "status"), [("DISK_FULL", 507), ("STORE_STOPPED", 503)])
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("DELETE", "/v1/schedules/m1", None),
        ("POST", "/v1/schedules/m1:deliverNow", None),
        ("POST", "/v1/schedules:bulkCancel", {"topic": "orders"}),
        ("POST", "/v1/groups/g1/deadLetters:redrive", {}),
    ],
)
async def test_a_temporary_error_of_the_store_is_returned_at_once(
    client, scheduler, method, path, body, code, status
):
    scheduler.add("m1")
    scheduler.failures = [StoreRefused(14, "the disk is full", code)] * 2
    problem = check(await client.request(method, path, json=body), status)
    assert (problem["code"], problem["retryable"]) == (code, True)
    assert problem["retryAfterMs"] > 0
    assert len(scheduler.failures) == 1, "it was asked once"


async def test_without_a_scheduler_the_call_returns_503_and_names_the_broker(client, system):
    system.schedulers.default = None
    problem = check(await client.delete("/v1/schedules/m1"), 503)
    assert problem["retryable"]
    assert "broker-a" in problem["detail"]


async def test_with_a_broker_away_a_missing_message_is_503_and_a_found_one_is_returned(pair_client, pair):
    await pair_client.get("/v1/brokers")
    pair.schedulers.one.add("m1", "broker-a")
    pair.kill("broker-b")
    assert (await pair_client.delete("/v1/schedules/m1")).status_code == 200
    problem = check(await pair_client.delete("/v1/schedules/none"), 503)
    assert problem["missing"] == ["broker-b"]
    check(await pair_client.delete("/v1/schedules/none?broker=broker-a"), 404, "id")
    check(await pair_client.delete("/v1/schedules/none?broker=broker-b"), 503)
    check(await pair_client.delete("/v1/schedules/none?broker=nobody"), 404, "broker")


async def test_found_on_one_broker_does_not_wait_for_another_without_scheduler(pair_client, pair):
    pair.schedulers.one.add("m1", "broker-a")
    pair.schedulers.holders["broker-b"] = None
    assert (await pair_client.delete("/v1/schedules/m1")).status_code == 200
    assert (await pair_client.delete("/v1/schedules/none")).status_code == 503


async def test_a_write_that_the_store_refused_is_503_with_its_message(client, scheduler):
    scheduler.add("m1")
    scheduler.failing = "the disk is full"
    problem = check(await client.delete("/v1/schedules/m1"), 503)
    assert "the disk is full" in problem["detail"]


async def test_a_message_is_moved_and_delivered_now(client, scheduler):
    scheduler.add("m1")
    scheduler.add("m2")
    answer = await client.patch("/v1/schedules/m1", json={"deliverAt": "2026-01-01T01:00:00Z"})
    assert answer.json() | {"broker": None} == {
        "status": "moved", "messageId": "m1", "broker": None, "deliverAt": "2026-01-01T01:00:00.000Z",
    }  # fmt: skip
    scheduler.add("m1")
    answer = await client.patch("/v1/schedules/m1", json={"delayMs": 1500})
    assert answer.json()["deliverAt"] == "2026-01-01T00:00:01.500Z"
    assert (await client.post("/v1/schedules/m2:deliverNow")).json()["status"] == "delivered"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "deliverAt"),
        ({"deliverAt": 1, "delayMs": 1}, "deliverAt"),
        ({"deliverAt": "2030-01-01T00:00:00Z"}, "deliverAt"),
        ({"deliverAt": "soon"}, None),
        ({"delayMs": -1}, "delayMs"),
        ({"delayMs": 40 * 86_400_000 + 1}, "delayMs"),
        ({"delay": 1}, "delay"),
    ],
)
async def test_a_bad_move_is_refused_by_name(client, scheduler, body, field):
    scheduler.add("m1")
    check(await client.patch("/v1/schedules/m1", json=body), 400, field)
    assert scheduler.waiting


async def test_the_list_has_the_documented_shape(client, scheduler):
    scheduler.add("m1", keys=["o-1"])
    answer = await client.get("/v1/schedules?topic=orders&key=o-1&from=1970-01-01T00:00:05Z&to=5001")
    assert answer.json() == {
        "schedules": [
            {"messageId": "m1", "broker": "broker-a", "topic": "orders", "queueId": 1, "kind": "instant", "keys": ["o-1"],
             "deliverAt": "1970-01-01T00:00:05.000Z", "attempts": 0, "level": None, "error": None}
        ],
        "next": None,
        "missing": [],
    }  # fmt: skip
    assert (await client.get("/v1/schedules?to=5000")).json()["schedules"] == []


@pytest.mark.parametrize("count", [1, 2, 3, 7, 100])
async def test_pages_over_two_brokers_list_each_message_once_in_order(pair_client, pair, count):
    for n in range(23):
        pair.schedulers.one.add(f"m{n}", ("broker-a", "broker-b")[n % 3 == 0], 5000 - 10 * (n // 2))
    found, after = [], ""
    while True:
        page = (await pair_client.get(f"/v1/schedules?max={count}&after={after}")).json()
        assert len(page["schedules"]) <= count
        found += page["schedules"]
        after = page["next"]
        if after is None:
            break
    assert len({one["messageId"] for one in found}) == len(found) == 23
    assert [one["deliverAt"] for one in found] == sorted(one["deliverAt"] for one in found)


@pytest.mark.parametrize("comes", [False, True], ids=["one is delivered", "and another is sent"])
async def test_a_message_decided_between_two_pages_hides_no_other(pair_client, pair, monkeypatch, comes):
    one = pair.schedulers.one
    for n in range(6):
        one.add(f"a{n}", "broker-a", 5000 + 20 * n)
        one.add(f"b{n}", "broker-b", 5000 + 20 * n + 5)
    right, asked = one.list_schedules, []

    async def decided_meanwhile(query):
        asked.append(query)
        if len(asked) == 3:
            one.waiting = [each for each in one.waiting if each.id not in ("a0", "b0")]
            if comes:
                one.add("new a", "broker-a", 4000, position=9999)
        return await right(query)

    monkeypatch.setattr(one, "list_schedules", decided_meanwhile)
    found, after = [], ""
    while after is not None:
        page = (await pair_client.get(f"/v1/schedules?max=4&after={after}")).json()
        found += [each["messageId"] for each in page["schedules"]]
        after = page["next"]
    assert {f"{broker}{n}" for broker in "ab" for n in range(1, 6)} <= set(found)
    assert comes or len(set(found)) == len(found)


async def test_the_list_names_the_brokers_that_could_not_be_asked(pair_client, pair):
    pair.schedulers.one.add("m1", "broker-a")
    pair.schedulers.holders["broker-b"] = None
    page = (await pair_client.get("/v1/schedules")).json()
    assert (len(page["schedules"]), page["missing"]) == (1, ["broker-b"])


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("max=0", "max"),
        ("max=1001", "max"),
        ("from=x", "from"),
        ("after=eyJh", "after"),
        ("topics=x", "topics"),
        ("broker=no", "broker"),
    ],
)
async def test_a_bad_query_is_refused_by_name(client, query, field):
    answer = await client.get(f"/v1/schedules?{query}")
    check(answer, 404 if field == "broker" else 400, field)


async def test_parked_messages_are_listed_and_resent(client, scheduler):
    scheduler.add("m1", kind="parked", attempts=9, error="the topic is gone")
    scheduler.parked, scheduler.waiting = scheduler.waiting, []
    (one,) = (await client.get("/v1/parked")).json()["schedules"]
    assert (one["kind"], one["attempts"], one["error"]) == ("parked", 9, "the topic is gone")
    assert (await client.post("/v1/parked/m1:resend")).json()["status"] == "delivered"
    check(await client.post("/v1/parked/m2:resend"), 404, "id")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/v1/schedules/m1"),
        ("DELETE", "/v1/schedules/m1:deliverNow"),
        ("GET", "/v1/schedules:bulkMove"),
    ],
)
async def test_other_methods_are_405(client, method, path):
    answer = await client.request(method, path)
    assert (answer.status_code, bool(answer.headers["allow"])) == (405, True)
