"""A receive or pull that waited is decided again before it is answered, if any user, policy or token has changed meanwhile."""

from __future__ import annotations

import asyncio
import json

import pytest
from gateway_fast_line import RECEIVE, line_to
from gateway_guarded import SETTINGS, Access, by

from gantry_access.entries.entry import Kind
from gantry_access.model.users import UserStatus

pytestmark = pytest.mark.anyio
SENDS = "/v1/topics/orders/messages"
PULLS = "/v1/topics/orders/queues/broker-a/0/messages?waitSeconds=30"
RECEIVES = "/v1/topics/orders/groups/g1/messages:receive"
MAY_READ = "Allow Pub/Sub Topic:orders", "Allow Sub Group:g1"


@pytest.fixture
def access(anyio_backend):
    return Access()


@pytest.fixture
async def http(system, access, connect):
    async with connect(system.gateway(access_parts=access.parts, **SETTINGS)) as client:
        yield client


def changed(access, change: str) -> None:
    match change:
        case "rights":
            access.policies("alice", "Deny Sub Topic:orders")
        case "disabled":
            access.user("alice", *MAY_READ, status=UserStatus.DISABLE)
        case "revoked":
            access.delete(Kind.TOKEN, "t1")
        case _:
            access.user("bob", "Allow All *")


async def until_waiting(system) -> None:
    async with asyncio.timeout(20):
        while not system.leases.stores or not system.leases.stores["broker-a"].waits:
            await asyncio.sleep(0.005)


@pytest.mark.parametrize(
    ("change", "status"), [("rights", 403), ("disabled", 403), ("revoked", 401), ("others", 200)]
)
async def test_a_held_receive_is_decided_again_and_its_messages_given_back(
    system, access, http, change, status
):
    access.user("alice", *MAY_READ)
    reader = by(access.token("alice"))
    sender = by(access.user("sender", "Allow Pub Topic:orders"))
    waiting = asyncio.ensure_future(http.post(RECEIVES, json={"waitSeconds": 30}, headers=reader))
    await until_waiting(system)
    changed(access, change)
    await http.post(SENDS, json={"messages": [{"body": "secret"}]}, headers=sender)
    answer = await asyncio.wait_for(waiting, 30)
    assert (answer.status_code, "secret" in answer.text) == (status, status == 200)
    if status != 200:
        other = by(access.user("other", *MAY_READ))
        again = await http.post(RECEIVES, json={"waitSeconds": 5}, headers=other)
        assert [one["body"] for one in again.json()["messages"]] == ["secret"], "it was given back"


@pytest.mark.parametrize(
    ("change", "status"), [("rights", 403), ("disabled", 403), ("revoked", 401), ("others", 200)]
)
async def test_a_held_receive_of_a_known_head_is_decided_again(system, access, change, status):
    access.user("alice", *MAY_READ)
    bearer = f"authorization: {access.token('alice')}"
    async with line_to(system, access_parts=access.parts, **SETTINGS) as line:
        for _ in range(2):
            await line.post(b'{"waitSeconds":0}', "content-type: application/json", bearer, path=RECEIVE)
        asking = line.post(b'{"waitSeconds":30}', "content-type: application/json", bearer, path=RECEIVE)
        waiting = asyncio.ensure_future(asking)
        await until_waiting(system)
        changed(access, change)
        await system.stores["broker-a"].put("orders", 0, b"secret", "UNIQ_KEY\x01AC1E\x02")
        found, _headers, body = await asyncio.wait_for(waiting, 30)
        assert (found, b"secret" in body) == (status, status == 200)


async def test_a_held_pull_is_decided_again(system, access, http):
    access.user("alice", *MAY_READ)
    reader = by(access.token("alice"))
    waiting = asyncio.ensure_future(http.get(PULLS, headers=reader))
    async with asyncio.timeout(20):
        while not access.audit.admitted:
            await asyncio.sleep(0.005)
    await asyncio.sleep(0.05)
    changed(access, "rights")
    await system.stores["broker-a"].put("orders", 0, b"secret", "")
    answer = await asyncio.wait_for(waiting, 60)
    assert (answer.status_code, "secret" in answer.text) == (403, False)
    assert json.loads(answer.text)["code"] == "NO_PERMISSION"


@pytest.mark.parametrize(
    ("change", "status"), [("rights", 403), ("disabled", 403), ("revoked", 401), ("others", 200)]
)
async def test_a_held_receive_of_checks_is_decided_again(system, access, http, change, status):
    access.user("alice", *MAY_READ)
    owner = by(access.token("alice"))
    sender = by(access.user("sender", "Allow Pub Topic:orders"))
    body = {"producerGroup": "shop", "message": {"body": "secret"}}
    checks = "/v1/producerGroups/shop/checks:receive"
    made = [
        (await http.post("/v1/topics/orders/transactions", json=body, headers=sender)).json()
        for _ in range(2)
    ]
    waiting = asyncio.ensure_future(http.post(checks, json={"waitSeconds": 30}, headers=owner))
    async with asyncio.timeout(20):
        while not system.transactions.checker.queries:
            await asyncio.sleep(0.005)
    match change:
        case "rights":
            access.policies("alice", "Allow Sub Topic:orders")
        case _:
            changed(access, change)
    system.transactions.checker.ask(made[0]["broker"], made[0]["messageId"])
    answer = await asyncio.wait_for(waiting, 30)
    assert (answer.status_code, "secret" in answer.text) == (status, status == 200)


async def test_a_held_call_is_audited_once_if_nothing_changed(system, access, http):
    access.user("alice", *MAY_READ)
    reader = by(access.token("alice"))
    waiting = asyncio.ensure_future(http.post(RECEIVES, json={"waitSeconds": 30}, headers=reader))
    await until_waiting(system)
    await system.stores["broker-a"].put("orders", 0, b"seen", "UNIQ_KEY\x01AC1E\x02")
    assert (await asyncio.wait_for(waiting, 30)).status_code == 200
    assert len(access.audit.admitted) == 1
