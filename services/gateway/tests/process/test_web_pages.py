"""Pages of other origins, and of DNS names that point here, can do nothing, on the fast and on the slow path."""

from __future__ import annotations

import itertools

import pytest
from gateway_fast_line import ACK, RECEIVE, SEND, line_to
from gateway_problem_check import check

pytestmark = pytest.mark.anyio
EVIL = {"origin": "https://evil.example", "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
REBOUND = {"host": "rebound.evil.example:8080"}
BOTH = {
    "host": "rebound.evil.example",
    "origin": "http://rebound.evil.example",
    "sec-fetch-site": "same-origin",
}
NO_ORIGIN = {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"}
JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("page", "field"), [(EVIL, "Origin"), (NO_ORIGIN, "Sec-Fetch-Site"), (REBOUND, "Host"), (BOTH, "Host")]
)
async def test_no_call_is_made_for_a_page_of_another_origin(system, client, page, field):
    described = (await client.get("/openapi.json")).json()["paths"]
    calls = [
        (method.upper(), path) for path, of in described.items() for method in of if method != "parameters"
    ]
    assert len(calls) > 40
    calls += [
        ("OPTIONS", SEND),
        ("GET", "/"),
        ("GET", "/docs"),
        ("GET", "/nothing"),
        ("HEAD", "/health/live"),
    ]
    for method, path in calls:
        url = path.replace("{", "").replace("}", "")
        answer = await client.request(method, url, content=b"", headers=page)
        assert answer.status_code == 403, (method, path, answer.text)
        if method != "HEAD":
            problem = check(answer, 403, field)
            assert problem["code"] == "NO_PERMISSION"
        assert "access-control-allow-origin" not in answer.headers
    setting = "allowed_hosts" if field == "Host" else "cors_origins"
    assert setting in (await client.post(SEND, headers=page)).json()["detail"]
    assert not any(store.calls for store in system.stores.values())


@pytest.mark.parametrize(
    "path", [SEND, RECEIVE, ACK, "/v1/schedules:bulkCancel", "/v1/groups/g1/offsets:reset"]
)
@pytest.mark.parametrize(
    "media_type", [None, "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
async def test_a_body_without_a_type_and_a_form_are_refused_with_the_header_to_add(client, path, media_type):
    headers = {} if media_type is None else {"content-type": media_type}
    body = b'{"messages":[{"body":"x"}],"topic":"orders"}'
    problem = check(await client.post(path, content=body, headers=headers), 415, "Content-Type")
    assert "Content-Type: application/json" in problem["detail"]


async def test_the_headers_of_a_message_or_an_event_make_a_body_without_a_type_a_message(client):
    event = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}
    for headers in ({"Mq-Tag": "a"}, event):
        assert (await client.post(SEND, content=b"raw", headers=headers)).status_code == 200


async def test_our_own_page_may_call(client):
    own = {"origin": "http://gateway", "sec-fetch-site": "same-origin", "sec-fetch-mode": "cors"}
    assert (await client.post(SEND, json={"messages": [{"body": "x"}]}, headers=own)).status_code == 200
    typed = {"sec-fetch-site": "none", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert (await client.get("/docs", headers=typed)).status_code == 200
    followed = typed | {"sec-fetch-site": "cross-site"}
    assert (await client.get("/docs", headers=followed)).status_code == 200


HOSTS = ("gateway", "evil.example", "127.0.0.1:80", "GATEWAY:1", "gateway.evil.example")
ORIGINS = (None, "https://evil.example", "http://gateway", "null")
SITES = (None, "same-origin", "cross-site")
TYPES = (None, "application/json", "text/plain", "application/x-www-form-urlencoded")
BODIES = {SEND: b'{"messages":[{"body":"x"}]}', RECEIVE: b"{}", ACK: b'{"acks":[{"receiptHandle":"x"}]}'}


@pytest.mark.parametrize("path", [SEND, RECEIVE, ACK])
async def test_a_known_head_is_refused_exactly_when_the_slow_path_refuses_it(system, path):
    """The fast path answers the third request with the same head, if any; an id in the head keeps the first on the slow path."""
    async with line_to(system) as line:
        for host, origin, site, media_type in itertools.product(HOSTS, ORIGINS, SITES, TYPES):
            named = {"origin": origin, "sec-fetch-site": site, "content-type": media_type}
            headers = [f"host: {host}", *[f"{name}: {value}" for name, value in named.items() if value]]
            seen = []
            for more in (["x-request-id: plain"], [], []):
                status, answered, _body = await line.post(BODIES[path], *headers, *more, path=path)
                seen.append(status)
                if dict(answered).get("connection") == "close":
                    await line.reconnect()
            is_page = origin in {"https://evil.example", "null"} or site == "cross-site"
            is_page |= origin == "http://gateway" and host != "gateway"
            if "evil" in host or is_page:
                assert seen == [403] * 3, headers
            else:
                assert seen[0] == seen[1] == seen[2] != 403, headers
