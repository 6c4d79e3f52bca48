"""A body counts as JSON only by its media type, so a form or a text that a foreign page can send reaches no handler."""

from __future__ import annotations

import pytest
from gateway_guarded import SETTINGS, Access, by
from gateway_memory import MemorySystem

from gantry_access.model.users import UserType

pytestmark = pytest.mark.anyio
SEND = "/v1/topics/{topic}/messages"
PLACES = {
    "{topic}": "orders",
    "{group}": "g1",
    "{broker}": "broker-a",
    "{id}": "broker-a.17",
    "{name}": "somebody",
    "{subject}": "somebody",
}
SIMPLE = (
    "text/plain",
    "text/plain;charset=UTF-8",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    None,
)
"""What a page may send anywhere without asking first (Fetch, CORS-safelisted), and no type at all."""


def routes():
    return [
        (one.method, one.shown_path)
        for one in MemorySystem().gateway().app._router.operations
        if one.method in ("POST", "PUT", "PATCH") and one.shown_path != SEND
    ]


def filled(template):
    for place, value in PLACES.items():
        template = template.replace(place, value)
    return template


@pytest.mark.parametrize(("method", "path"), routes())
@pytest.mark.parametrize("guarded", [False, True])
async def test_a_body_of_another_type_is_415(connect, method, path, guarded):
    system, access = MemorySystem(), Access()
    system.add_topic("orders")
    system.add_group("g1")
    root = by(access.user("root", kind=UserType.SUPER))
    access.user("somebody")
    parts = {"access_parts": access.parts, **SETTINGS} if guarded else {}
    body = b'{"topic":"orders","to":"earliest","offsets":[],"key":"k","shiftMs":1}'
    async with connect(system.gateway(**parts)) as http:
        for media_type in SIMPLE:
            headers = root | ({} if media_type is None else {"content-type": media_type})
            answer = await http.request(method, filled(path), content=body, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (415, "UNSUPPORTED_MEDIA_TYPE")


@pytest.mark.parametrize(
    ("media_type", "status"),
    [("text/plain", 200), ("application/octet-stream", 200), ("application/x-www-form-urlencoded", 415)],
)
async def test_a_send_takes_any_other_type_as_one_message(client, media_type, status):
    """Documented: a raw body is a message. The origin of a page is checked before."""
    body = b'{"messages":[{"body":"x"}]}'
    answer = await client.post(
        "/v1/topics/orders/messages", content=body, headers={"content-type": media_type}
    )
    assert answer.status_code == status
    foreign = {"content-type": media_type, "origin": "https://evil.example"}
    assert (await client.post("/v1/topics/orders/messages", content=body, headers=foreign)).status_code == 403


async def test_pages_are_checked_before_credentials(system, connect):
    access = Access()
    root = by(access.user("root", kind=UserType.SUPER))
    async with connect(system.gateway(access_parts=access.parts, **SETTINGS)) as http:
        for headers in (
            {"origin": "https://evil.example"}, {"host": "rebound.example"}, {"sec-fetch-site": "cross-site"}, {"origin": "null"},
        ):  # fmt: skip
            for more in ({}, root):
                answer = await http.get("/v1/topics", headers=headers | more)
                assert (answer.status_code, answer.json()["code"]) == (403, "NO_PERMISSION")
        assert access.audit.admitted == access.audit.denied == [], "no secret was looked at"
