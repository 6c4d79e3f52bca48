"""Receive, acknowledge and extend over HTTP: shapes, bounds, statuses, and what happens when a client goes away."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from gateway_problem_check import check

from gantry_wire.private_requests.leases import ItemKind
from gateway.ports.stores import PeerAway, StoreRefused

pytestmark = pytest.mark.anyio
URL = "/v1/topics/orders/groups/g1/messages"


def check_problem(reply: httpx.Response, status: int, code: str) -> None:
    assert check(reply, status)["code"] == code


async def put(
    system, *bodies: str, broker: str = "broker-a", queue_id: int = 0, properties: str = ""
) -> None:
    for body in bodies:
        await system.stores[broker].put(
            "orders", queue_id, body.encode(), f"UNIQ_KEY\x01{len(body):032X}\x02{properties}"
        )


async def receive(client, **body) -> list[dict]:
    reply = await client.post(f"{URL}:receive", json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()["messages"]


async def ack(client, acks=(), nacks=(), **more) -> list[dict]:
    body = {"acks": [{"receiptHandle": one["receiptHandle"]} for one in acks]}
    body["nacks"] = [{"receiptHandle": one["receiptHandle"], **more} for one in nacks]
    reply = await client.post(f"{URL}:ack", json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()["results"]


async def test_a_message_comes_with_handle_end_of_lease_and_attempt(client, system):
    await put(system, "hi", properties="TAGS\x01a\x02KEYS\x01o-1\x02x\x011\x02")
    (got,) = await receive(client, invisibleSeconds=30)
    handle = got.pop("receiptHandle")
    assert len(handle) > 20
    assert set(handle) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
    assert got.pop("invisibleUntil") == "2026-01-01T00:00:30.000Z"
    assert got.pop("deliveryAttempt") == 1
    pulled = (await client.get("/v1/topics/orders/queues/broker-a/0/messages")).json()["messages"]
    assert [got] == pulled


async def test_no_messages_are_an_empty_list(client):
    assert await receive(client) == []
    assert (await client.post(f"{URL}:receive")).json() == {"messages": []}


async def test_results_come_first_for_acks_then_for_nacks(client, system):
    await put(system, "a", "bb", "ccc")
    one, two, three = await receive(client)
    assert await ack(client, [three, one], [two], delaySeconds=5, reason="no stock") == [
        {"status": "acked"},
        {"status": "acked"},
        {"status": "nacked"},
    ]
    store = system.leases.stores["broker-a"]
    assert store.delays == [5000]
    assert store.reasons == {2: "no stock"}


async def test_a_nack_without_a_delay_leaves_it_to_the_group(client, system):
    await put(system, "a")
    await ack(client, [], await receive(client))
    assert system.leases.stores["broker-a"].delays == [-1]


async def test_each_handle_gets_its_own_answer(client, system):
    await put(system, "a", "bb")
    one, two = await receive(client)
    assert await ack(client, [one]) == [{"status": "acked"}]
    system.leases.stores["broker-a"].expire()
    foreign = (await client.post("/v1/topics/orders/groups/g2/messages:receive", json={})).json()["messages"]
    broken = {"receiptHandle": two["receiptHandle"][:-1] + "!"}
    cut = {"receiptHandle": two["receiptHandle"][:-4]}
    assert await ack(client, [one, two, *foreign, broken, cut]) == [
        {"status": "acked"},
        {"status": "leaseExpired"},
        *[{"status": "invalidHandle"}] * (len(foreign) + 2),
    ]


async def test_an_extension_returns_the_new_end(client, system):
    await put(system, "a")
    (one,) = await receive(client)
    body = {
        "extends": [{"receiptHandle": one["receiptHandle"]}, {"receiptHandle": "no"}],
        "invisibleSeconds": 60,
    }
    reply = await client.post(f"{URL}:extend", json=body)
    assert reply.json()["results"] == [
        {"status": "extended", "invisibleUntil": "2026-01-01T00:01:00.000Z"},
        {"status": "invalidHandle"},
    ]
    system.leases.stores["broker-a"].expire()
    reply = await client.post(f"{URL}:extend", json={"extends": [{"receiptHandle": one["receiptHandle"]}]})
    assert reply.json()["results"] == [{"status": "leaseExpired"}]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"maxMessages": 0}, "maxMessages"),
        ({"maxMessages": 257}, "maxMessages"),
        ({"maxMessages": "1"}, "maxMessages"),
        ({"waitSeconds": -1}, "waitSeconds"),
        ({"waitSeconds": 31}, "waitSeconds"),
        ({"invisibleSeconds": 0}, "invisibleSeconds"),
        ({"invisibleSeconds": 43201}, "invisibleSeconds"),
        ({"filter": {"type": "class", "expression": "x"}}, "filter.type"),
        ({"filter": {"type": "tag"}}, "filter.expression"),
        ({"filter": {"expression": "||"}}, "filter"),
        ({"changeFilter": True}, "changeFilter"),
        ({"more": 1}, "more"),
    ],
)
async def test_a_receive_out_of_bounds_names_its_field(client, body, field):
    reply = await client.post(f"{URL}:receive", json=body)
    check_problem(reply, 400, "INVALID_PARAMETER")
    assert reply.json()["field"] == field


@pytest.mark.parametrize(
    ("verb", "body", "field"),
    [
        ("ack", {}, "acks"),
        ("ack", {"acks": []}, "acks"),
        ("ack", {"acks": [{"receiptHandle": "x"}] * 1025}, "acks"),
        ("ack", {"acks": [{"receiptHandle": ""}]}, "acks[0].receiptHandle"),
        ("ack", {"acks": [{"handle": "x"}]}, "acks[0].handle"),
        ("ack", {"nacks": [{"receiptHandle": "x", "delaySeconds": -1}]}, "nacks[0].delaySeconds"),
        ("ack", {"nacks": [{"receiptHandle": "x", "delaySeconds": 3456001}]}, "nacks[0].delaySeconds"),
        ("ack", {"nacks": [{"receiptHandle": "x", "reason": "r" * 1025}]}, "nacks[0].reason"),
        ("extend", {"extends": []}, "extends"),
        ("extend", {"extends": [{"receiptHandle": "x"}], "invisibleSeconds": 0}, "invisibleSeconds"),
    ],
)
async def test_acknowledgements_out_of_bounds_name_their_field(client, verb, body, field):
    reply = await client.post(f"{URL}:{verb}", json=body)
    check_problem(reply, 400, "INVALID_PARAMETER")
    assert reply.json()["field"] == field


async def test_what_is_not_json_or_not_for_clients_is_refused(client):
    check_problem(
        await client.post(f"{URL}:ack", content=b"{", headers={"content-type": "application/json"}),
        400,
        "INVALID_PARAMETER",
    )
    form = {"content-type": "application/x-www-form-urlencoded"}
    check_problem(
        await client.post(f"{URL}:ack", content=b"a=b", headers=form), 415, "UNSUPPORTED_MEDIA_TYPE"
    )
    path = "/v1/topics/GANTRY_SYS_ACKS/groups/g1/messages:receive"
    check_problem(await client.post(path, json={}), 403, "NO_PERMISSION")
    path = "/v1/topics/orders/groups/GANTRY_GATEWAY/messages:receive"
    check_problem(await client.post(path, json={}), 403, "NO_PERMISSION")
    check_problem(
        await client.post("/v1/topics/none/groups/g1/messages:receive", json={}), 404, "TOPIC_NOT_EXIST"
    )
    check_problem(await client.post(f"{URL}:receive?max=3", json={}), 400, "INVALID_PARAMETER")
    reply = await client.get(f"{URL}:receive")
    check_problem(reply, 405, "METHOD_NOT_ALLOWED")


async def test_another_filter_is_a_conflict_unless_it_is_to_change(pair_client, pair):
    one, other = {"type": "tag", "expression": "a || b"}, {"type": "sql92", "expression": "size > 3"}
    await receive(pair_client, filter=one)
    stores = pair.leases.stores
    assert [store.filters["g1"] for store in stores.values()] == [("TAG", "a||b")] * 2
    reply = await pair_client.post(f"{URL}:receive", json={"filter": other})
    check_problem(reply, 409, "FILTER_CONFLICT")
    await receive(pair_client, filter={"expression": "b||a"})
    await receive(pair_client, filter=other, changeFilter=True)
    assert [store.filters["g1"] for store in stores.values()] == [("SQL92", "size > 3")] * 2
    reply = await pair_client.post(
        f"{URL}:receive", json={"filter": {"type": "sql92", "expression": "size >"}}
    )
    check_problem(reply, 422, "SUBSCRIPTION_PARSE_FAILED")


async def test_a_receive_takes_from_one_broker_after_the_other_up_to_what_was_asked(pair_client, pair):
    await put(pair, "a", "bb", "ccc", broker="broker-a")
    await put(pair, "dddd", "eeeee", broker="broker-b")
    got = await receive(pair_client, maxMessages=4)
    assert len(got) == 4
    assert {one["broker"] for one in got} == {"broker-a", "broker-b"}
    assert await ack(pair_client, got) == [{"status": "acked"}] * 4
    assert len(await receive(pair_client, maxMessages=4)) == 1


async def test_a_broker_that_is_away_is_passed_over_and_its_handles_fail_for_themselves(pair_client, pair):
    await put(pair, "a", broker="broker-a")
    await put(pair, "bb", broker="broker-b")
    got = await receive(pair_client)
    pair.stores["broker-b"].away = PeerAway("broker-b", True, "no answer")
    by_broker = {one["broker"]: one for one in got}
    results = await ack(pair_client, [by_broker["broker-b"], by_broker["broker-a"]])
    assert results[0]["code"] == "SERVICE_NOT_AVAILABLE"
    assert results[0]["retryable"]
    assert results[1] == {"status": "acked"}
    assert await receive(pair_client) == []
    pair.stores["broker-a"].away = PeerAway("broker-a", True, "no answer")
    check_problem(await pair_client.post(f"{URL}:receive", json={}), 503, "SERVICE_NOT_AVAILABLE")


async def test_a_broker_where_the_topic_was_deleted_is_passed_over(pair_client, pair):
    """Nameservers keep such a broker in the topic's route."""
    stores = pair.stores
    stores["broker-b"].refuse = StoreRefused(17, "topic[orders] not exist, apply first please!")
    for number in range(4):  # each time another broker is asked first
        await put(pair, f"m{number}", broker="broker-a")
        assert [one["body"] for one in await receive(pair_client, waitSeconds=1)] == [f"m{number}"]
    assert await receive(pair_client, filter={"expression": "a"}) == []
    stores["broker-a"].refuse = stores["broker-b"].refuse
    check_problem(await pair_client.post(f"{URL}:receive", json={}), 404, "TOPIC_NOT_EXIST")
    stores["broker-a"].refuse, stores["broker-a"].away = None, PeerAway("broker-a", True, "no answer")
    check_problem(await pair_client.post(f"{URL}:receive", json={}), 503, "SERVICE_NOT_AVAILABLE")


async def test_refusals_of_a_store_are_returned(client, system):
    await put(system, "a")
    (got,) = await receive(client)
    handle = {"receiptHandle": got["receiptHandle"]}
    store = system.stores["broker-a"]
    store.refuse = StoreRefused(
        16, "subscription group no permission, g1: it is paused; resume it to receive"
    )
    reply = await client.post(f"{URL}:receive", json={})
    check_problem(reply, 403, "NO_PERMISSION")
    assert reply.json()["field"] == "group"
    store.refuse = StoreRefused(14, "the disk is full", "DISK_FULL")
    check_problem(await client.post(f"{URL}:ack", json={"acks": [handle]}), 507, "DISK_FULL")
    store.refuse = StoreRefused(1, "perhaps", "RESULT_UNKNOWN")
    reply = await client.post(f"{URL}:ack", json={"acks": [handle]})
    check_problem(reply, 504, "UNKNOWN_WHETHER_STORED")
    store.refuse = None
    system.leases.stores["broker-a"].fails_later = True
    reply = await client.post(f"{URL}:ack", json={"nacks": [{**handle, "delaySeconds": 3600}]})
    check_problem(reply, 503, "SERVICE_NOT_AVAILABLE")


async def test_a_receive_waits_at_all_brokers_and_takes_what_arrives(pair_client, pair):
    waiting = asyncio.ensure_future(pair_client.post(f"{URL}:receive", json={"waitSeconds": 30}))
    while sum(store.waits for store in pair.leases.stores.values()) < 2:
        await asyncio.sleep(0.005)
    await put(pair, "late", broker="broker-b")
    reply = await asyncio.wait_for(waiting, 30)
    assert [one["body"] for one in reply.json()["messages"]] == ["late"]
    ended = [store.ended for store in pair.leases.stores.values()]
    assert sum(ended) >= 1, "the wait at the other broker ends"


async def test_a_draining_gateway_answers_receives_that_wait(system, connect):
    gateway = system.gateway()
    async with connect(gateway) as client:
        waiting = asyncio.ensure_future(client.post(f"{URL}:receive", json={"waitSeconds": 30}))
        while not system.leases.stores or not system.leases.stores["broker-a"].waits:
            await asyncio.sleep(0.005)
        gateway.drain()
        reply = await asyncio.wait_for(waiting, 20)
        assert reply.json() == {"messages": []}


class Scripted:
    """An ASGI connection that a test can close."""

    def __init__(self, app, body: bytes) -> None:
        self.app, self.body = app, body
        self.gone = asyncio.Event()
        self.sent: list[dict] = []
        self.is_lost = False

    async def run(self) -> None:
        scope = {
            "type": "http", "method": "POST", "path": f"{URL}:receive", "raw_path": f"{URL}:receive".encode(),
            "query_string": b"", "headers": [(b"host", b"gateway"), (b"content-type", b"application/json")],
            "client": ("127.0.0.1", 1), "http_version": "1.1", "scheme": "http", "root_path": "", "server": None,
            "gateway.is_lost": lambda: self.is_lost,
        }  # fmt: skip
        await self.app(scope, self._receive, self._send)

    async def _receive(self) -> dict:
        if self.body:
            body, self.body = self.body, b""
            return {"type": "http.request", "body": body, "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, event: dict) -> None:
        self.sent.append(event)


async def test_a_client_that_goes_away_while_it_waits_takes_no_message_with_it(system):
    gone = Scripted(system.gateway().app, b'{"waitSeconds":30}')
    waiting = asyncio.ensure_future(gone.run())
    while not system.leases.stores or not system.leases.stores["broker-a"].waits:
        await asyncio.sleep(0.005)
    gone.gone.set()
    await asyncio.wait_for(waiting, 20)
    await put(system, "a")
    await asyncio.sleep(0.05)
    assert system.leases.stores["broker-a"].leased == {}


async def test_messages_that_cannot_be_written_are_given_back_at_once(system):
    await put(system, "a", "bb")
    lost = Scripted(system.gateway().app, b"{}")
    lost.is_lost = True
    await lost.run()
    assert lost.sent == []
    store = system.leases.stores["broker-a"]
    while not store.released:
        await asyncio.sleep(0.005)
    assert [(item.kind, item.offset) for item in store.released] == [
        (ItemKind.RELEASE, 0),
        (ItemKind.RELEASE, 1),
    ]
    assert store.leased == {}


async def test_limits_of_clients_hold_here_too(system, connect):
    from gateway_memory import MemoryLimits

    limits = MemoryLimits()
    limits.wait_ms = 500
    async with connect(system.gateway(limits)) as client:
        for verb, body in (("receive", {}), ("ack", {"acks": [{"receiptHandle": "x"}]})):
            reply: httpx.Response = await client.post(f"{URL}:{verb}", json=body)
            check_problem(reply, 429, "RATE_LIMITED")
