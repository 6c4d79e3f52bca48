"""A gateway in permissive mode: calls without a user pass and are noted, those about users need one, and a token of the settings stays in force."""

from __future__ import annotations

import pytest
from gateway_guarded import SETTINGS, Access, by

from gantry_access.model.users import UserType

pytestmark = pytest.mark.anyio
ORDERS = "/v1/topics/orders/messages"
ONE = {"messages": [{"body": "x"}]}
PERMISSIVE = {**SETTINGS, "access_mode": "permissive"}


@pytest.fixture
def access(anyio_backend):
    return Access(is_permissive=True)


@pytest.fixture
async def http(system, access, connect):
    async with connect(system.gateway(access_parts=access.parts, **PERMISSIVE)) as client:
        yield client


@pytest.mark.parametrize("header", [None, "Basic eA==", "Bearer gantry_unknown"])
async def test_calls_without_a_user_pass_and_are_noted(http, access, header):
    headers = by(header) if header else {}
    assert (await http.post(ORDERS, json=ONE, headers=headers)).status_code == 200
    assert (await http.get("/v1/topics", headers=headers)).status_code == 200
    assert (await http.get("/v1/nothing", headers=headers)).status_code == 404
    assert [asked.request for asked, _ in access.audit.passed] == [
        "POST /v1/topics/{topic}/messages",
        "GET /v1/topics",
        "unknown path",
    ]
    assert access.audit.denied == []


async def test_a_user_without_a_right_passes_and_is_noted_with_what_it_lacks(http, access):
    header = by(access.user("alice", "Allow Pub Topic:others"))
    assert (await http.post(ORDERS, json=ONE, headers=header)).status_code == 200
    ((asked, reason),) = access.audit.passed
    assert (asked.user, reason) == ("alice", "no_match")
    access.policies("alice", "Allow Pub Topic:orders")
    assert (await http.post(ORDERS, json=ONE, headers=header)).status_code == 200
    assert len(access.audit.passed) == 1


async def test_calls_about_users_need_a_user_with_its_rights(http, access):
    alice, root = access.user("alice"), access.user("root", kind=UserType.SUPER)
    for header, status in (({}, 401), (by("Basic eA=="), 401), (by(alice), 403)):
        assert (await http.get("/v1/users", headers=header)).status_code == status
        answer = await http.post("/v1/users", json={"user": "mallory", "type": "Super"}, headers=header)
        assert answer.status_code == status
        assert (await http.delete("/v1/policies/alice", headers=header)).status_code == status
        assert (await http.post("/v1/tokens", json={"user": "root"}, headers=header)).status_code in (400, status)  # fmt: skip
    assert (await http.get("/v1/users", headers=by(root))).status_code == 200
    assert (access.stores.taken, access.audit.passed) == ([], [])


async def test_it_is_ready_before_users_are_read(http, access):
    access.table.is_complete = False
    assert (await http.get("/health/ready")).status_code == 200
    assert (await http.post(ORDERS, json=ONE)).status_code == 200
    assert (await http.get("/v1/users")).status_code == 503


async def test_a_token_of_the_settings_stays_in_force_for_those_without_a_user(system, connect, access):
    gateway = system.gateway(access_parts=access.parts, token="s3cret", **PERMISSIVE)
    may, may_not = access.user("may", "Allow Pub Topic:orders"), access.user("may-not")
    async with connect(gateway) as http:
        for header, status in (
            ({}, 401), (by("Bearer other"), 401), (by("Bearer s3cret"), 200), (by(may), 200), (by(may_not), 403),
        ):  # fmt: skip
            assert (await http.post(ORDERS, json=ONE, headers=header)).status_code == status
        assert (await http.get("/v1/nothing")).status_code == 401
        assert (await http.get("/v1/users", headers=by("Bearer s3cret"))).status_code == 401
