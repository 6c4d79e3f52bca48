"""A user without rights gets one answer about a topic or group: nothing tells whether it exists."""

from __future__ import annotations

import pytest
from gateway_guarded import SETTINGS, Access, by

pytestmark = pytest.mark.anyio
CALLS = [
    ("POST", "/v1/topics/{}/messages", {"messages": [{"body": "x"}]}),
    ("POST", "/v1/topics/{}/transactions", {"producerGroup": "pg", "message": {"body": "x"}}),
    ("GET", "/v1/topics/{}/queues/broker-a/0/messages", None),
    ("POST", "/v1/topics/{}/groups/g1/messages:receive", {}),
    ("GET", "/v1/topics/{}", None),
    ("DELETE", "/v1/topics/{}", None),
    ("GET", "/v1/messages?topic={}&key=k", None),
    ("GET", "/v1/messages/AC1E?topic={}", None),
    ("GET", "/v1/schedules?topic={}", None),
    ("DELETE", "/v1/schedules/broker-a.17?topic={}", None),
    ("GET", "/v1/transactions?topic={}", None),
    ("POST", "/v1/schedules:bulkCancel", {"topic": "{}", "key": "k"}),
]


@pytest.mark.parametrize(("method", "path", "body"), CALLS)
async def test_a_topic_that_exists_and_one_that_does_not_get_one_answer(
    system, connect, anyio_backend, method, path, body
):
    access = Access()
    alice = by(access.user("alice", "Allow All Topic:mine", "Allow All Group:*"))
    async with connect(system.gateway(access_parts=access.parts, **SETTINGS)) as http:
        found = []
        for topic in ("orders", "absent"):
            sent = None if body is None else {k: topic if v == "{}" else v for k, v in body.items()}
            answer = await http.request(method, path.format(topic), json=sent, headers=alice)
            found.append((answer.status_code, answer.json()["detail"].replace(topic, "…")))
    assert found[0] == found[1]
    assert found[0][0] == 403
