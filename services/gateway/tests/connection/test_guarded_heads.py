"""Known heads under access control: each request is decided, by the token, the rights and the address of this moment."""

from __future__ import annotations

import json

import pytest
from gateway_fast_line import ACK, RECEIVE, SEND, line_to, shown
from gateway_guarded import SETTINGS, Access

from gantry_access.entries.entry import Kind

pytestmark = pytest.mark.anyio
ONE = json.dumps({"messages": [{"body": "x"}]}).encode()
JSON = "content-type: application/json"


@pytest.fixture
def access(anyio_backend):
    return Access()


def messages(system) -> int:
    return sum(len(queue) for queue in system.stores["broker-a"].queues.values())


async def learned(line, *headers, path=SEND, body=ONE):
    """Send twice; the second request has a known head, and is answered by the fast path."""
    first = await line.post(body, JSON, *headers, path=path)
    fast = line.fast[path]
    second = await line.post(body, JSON, *headers, path=path)
    assert (first[0], second[0], line.fast[path]) == (200, 200, fast + 1)
    return first, second


async def test_sends_receives_and_acks_of_a_token_take_the_fast_path(system, access):
    access.user("alice", "Allow Pub/Sub Topic:orders", "Allow Sub Group:g1")
    bearer = f"authorization: {access.token('alice')}"
    async with line_to(system, access_parts=access.parts, **SETTINGS) as line:
        first, second = await learned(line, bearer)
        assert shown(first) == shown(second)
        for _ in range(2):
            status, _headers, body = await line.post(b'{"maxMessages":1}', JSON, bearer, path=RECEIVE)
            handle = json.loads(body)["messages"][0]["receiptHandle"]
            ack = json.dumps({"acks": [{"receiptHandle": handle}]}).encode()
            assert (status, (await line.post(ack, JSON, bearer, path=ACK))[0]) == (200, 200)
        assert (line.fast[RECEIVE], line.fast[ACK]) == (1, 1)
    allowed = [asked.request for asked in access.audit.admitted]
    assert allowed == [f"POST {path}" for path in (
        "/v1/topics/{topic}/messages", "/v1/topics/{topic}/messages",
        "/v1/topics/{topic}/groups/{group}/messages:receive", "/v1/topics/{topic}/groups/{group}/messages:ack",
        "/v1/topics/{topic}/groups/{group}/messages:receive", "/v1/topics/{topic}/groups/{group}/messages:ack",
    )]  # fmt: skip
    assert access.audit.denied == []


@pytest.mark.parametrize("change", ["revoked", "expired", "rights", "network", "user", "user ends"])
async def test_a_known_head_is_refused_as_soon_as_its_caller_may_not(system, access, change):
    access.user("alice", "Allow Pub Topic:orders", expires_ms=access.now_ms + 30_000)
    bearer = f"authorization: {access.token('alice')}"
    async with line_to(system, access_parts=access.parts, **SETTINGS) as line:
        await learned(line, bearer)
        stored = messages(system)
        fast = line.fast[SEND]
        match change:
            case "revoked":
                access.delete(Kind.TOKEN, "t1")
            case "expired":
                access.now_ms += 60_000
            case "rights":
                access.policies("alice", "Deny Pub Topic:orders")
            case "network":
                access.policies("alice", "Allow Pub Topic:orders 10.0.0.0/8")
            case "user ends":
                access.now_ms += 30_000
            case _:
                access.delete(Kind.USER, "alice")
        status, _headers, _body = await line.post(ONE, JSON, bearer)
        expected = {"rights": 403, "network": 403, "user ends": 403}.get(change, 401)
        assert status == expected
        assert line.fast[SEND] == fast
        assert messages(system) == stored
    assert len(access.audit.denied) == 1


async def test_a_change_that_keeps_the_right_costs_one_slow_request(system, access):
    access.user("alice", "Allow Pub Topic:orders")
    bearer = f"authorization: {access.token('alice')}"
    async with line_to(system, access_parts=access.parts, **SETTINGS) as line:
        await learned(line, bearer)
        access.user("bob")
        statuses = [(await line.post(ONE, JSON, bearer))[0] for _ in range(3)]
        assert (statuses, line.fast[SEND]) == ([200] * 3, 3)


async def test_a_head_without_credentials_never_takes_the_fast_path(system, access):
    async with line_to(system, access_parts=access.parts, **SETTINGS) as line:
        for _ in range(3):
            assert (await line.post(ONE, JSON))[0] == 401
            await line.reconnect()
        assert line.fast[SEND] == 0


async def test_another_users_head_is_another_head(system, access):
    access.user("alice", "Allow Pub Topic:orders")
    bob = access.user("bob")
    good, bad = f"authorization: {access.token('alice')}", f"authorization: {bob}"
    async with line_to(system, access_parts=access.parts, **SETTINGS) as line:
        await learned(line, good)
        for _ in range(2):
            assert (await line.post(ONE, JSON, bad))[0] == 403
            await line.reconnect()
        assert (await line.post(ONE, JSON, good))[0] == 200


async def test_a_send_that_the_fast_path_leaves_is_decided_once(system, access):
    access.user("alice", "Allow Pub Topic:orders")
    bearer = f"authorization: {access.token('alice')}"
    two = json.dumps({"messages": [{"body": "x"}, {"body": "y"}]}).encode()
    async with line_to(system, access_parts=access.parts, **SETTINGS) as line:
        await learned(line, bearer)
        count = len(access.audit.admitted)
        assert (await line.post(two, JSON, bearer))[0] == 200
        assert len(access.audit.admitted) == count + 1
