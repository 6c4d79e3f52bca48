"""A body may come a minute after its head: what proved the caller by then is verified again before the call does anything."""

from __future__ import annotations

import asyncio
import json

import pytest
from gateway_fast_line import RECEIVE, SEND, line_to
from gateway_guarded import SETTINGS, Access

from gantry_access.entries.entry import Kind
from gantry_access.model.users import UserStatus

pytestmark = pytest.mark.anyio
OWN_TOKEN = "/v1/tokens", b'{"user":"alice","expiresInSeconds":3600}'
SENDS = SEND, b'{"messages":[{"body":"x"}]}'
RECEIVES = RECEIVE, b'{"waitSeconds":0}'
MAY = "Allow Pub/Sub Topic:orders", "Allow Sub Group:g1"


@pytest.fixture
def access(anyio_backend):
    return Access()


async def answer_to_late_body(line, path: str, body: bytes, header: str, change) -> tuple[int, bytes]:
    line.writer.write(
        f"POST {path} HTTP/1.1\r\nhost: gateway\r\ncontent-type: application/json\r\nauthorization: {header}\r\n"
        f"content-length: {len(body)}\r\n\r\n".encode()
    )
    await line.writer.drain()
    await asyncio.sleep(0.1)
    change()
    line.writer.write(body)
    status, _headers, content = await line.answer()
    return status, content


@pytest.mark.parametrize(("path", "body"), [OWN_TOKEN, SENDS, RECEIVES])
async def test_a_token_that_is_revoked_before_the_body_came_does_nothing(system, access, path, body):
    access.user("alice", *MAY)
    token = access.token("alice")
    async with line_to(system, access_parts=access.parts, **SETTINGS) as line:
        status, content = await answer_to_late_body(
            line, path, body, token, lambda: access.delete(Kind.TOKEN, "t1")
        )
    assert (status, json.loads(content)["code"]) == (401, "UNAUTHORIZED")
    assert access.stores.taken == []
    assert not system.stores["broker-a"].queues


@pytest.mark.parametrize(("path", "body"), [OWN_TOKEN, SENDS])
async def test_a_token_that_ends_before_the_body_came_does_nothing(system, access, path, body):
    access.user("alice", *MAY)
    token = access.token("alice", seconds=60)

    def end() -> None:
        access.now_ms += 60_000

    async with line_to(system, access_parts=access.parts, **SETTINGS) as line:
        status, _ = await answer_to_late_body(line, path, body, token, end)
    assert status == 401
    assert access.stores.taken == []


async def test_a_right_that_is_taken_away_before_the_body_came_counts(system, access):
    secret = access.user("alice", *MAY)
    async with line_to(system, access_parts=access.parts, **SETTINGS) as line:
        status, _ = await answer_to_late_body(
            line, *SENDS, secret, lambda: access.policies("alice", "Deny Pub Topic:orders")
        )
        assert status == 403
    async with line_to(system, access_parts=access.parts, **SETTINGS) as line:
        status, _ = await answer_to_late_body(
            line, *RECEIVES, secret, lambda: access.user("alice", *MAY, status=UserStatus.DISABLE)
        )
        assert status == 403


async def test_a_late_body_of_a_caller_that_nothing_changed_is_answered_and_audited_once(system, access):
    secret = access.user("alice", *MAY)
    async with line_to(system, access_parts=access.parts, **SETTINGS) as line:
        status, _ = await answer_to_late_body(line, *SENDS, secret, lambda: None)
    assert status == 200
    assert len(access.audit.admitted) == 1
