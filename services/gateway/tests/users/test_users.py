"""Users, policies and tokens over HTTP: stored by one store, never with a secret in clear, seen by the next call."""

from __future__ import annotations

import json
from typing import get_args

import pytest
from gateway_guarded import KEYS, SETTINGS, Access, basic, by

from gantry_access.entries.entry import Key, Kind
from gantry_access.entries.table import TOKEN_DAYS_MAX
from gantry_access.model.actions import Action
from gantry_access.model.users import UserType
from gantry_access.secrets.sealing import SECRET_BYTES_MAX
from gantry_wire.codes import ResponseCode
from gateway.ports.stores import PeerAway, StoreRefused
from gateway.users.schemas import SECRET_CHARS_MAX, TOKEN_SECONDS_MAX, ActionName

pytestmark = pytest.mark.anyio
ORDERS = "/v1/topics/orders/messages"
ONE = {"messages": [{"body": "x"}]}


@pytest.fixture
def access(anyio_backend):
    return Access()


@pytest.fixture
def root(access):
    return by(access.user("root", kind=UserType.SUPER))


@pytest.fixture
def admin(access):
    return by(access.user("admin", "Allow Get/Update Cluster:DefaultCluster"))


@pytest.fixture
async def http(system, access, connect):
    async with connect(system.gateway(access_parts=access.parts, **SETTINGS)) as client:
        yield client


def test_the_limits_are_those_of_the_stores():
    assert TOKEN_SECONDS_MAX == TOKEN_DAYS_MAX * 86_400
    assert SECRET_CHARS_MAX * 4 == SECRET_BYTES_MAX
    assert list(get_args(ActionName)) == Action.every().names


async def test_a_user_is_created_with_a_secret_that_is_shown_once_and_works_at_once(http, access, admin):
    made = await http.post("/v1/users", json={"user": "alice"}, headers=admin)
    assert made.status_code == 200
    answer = made.json()
    shown = {"user": "alice", "type": "Normal", "status": "enable", "secrets": 1, "expiresAt": None}
    assert (answer["user"], answer["broker"]) == (shown, "broker-a")
    assert len(answer["secret"]) == 64
    again = await http.get("/v1/users/alice", headers=admin)
    assert again.json() == {"users": [shown], "next": None}
    await http.put(
        "/v1/policies/alice",
        json={"custom": [{"resource": "Topic:orders", "actions": ["Pub"]}]},
        headers=admin,
    )
    assert (
        await http.post(ORDERS, json=ONE, headers=by(basic("alice", answer["secret"])))
    ).status_code == 200


async def test_no_secret_is_stored_or_noted_in_clear(http, access, admin):
    given = "a secret of my own"
    made = await http.post("/v1/users", json={"user": "alice", "secret": given}, headers=admin)
    assert made.json()["secret"] is None, "the client knows it"
    generated = (await http.post("/v1/users/alice:rotate", headers=admin)).json()["secret"]
    token = (await http.post("/v1/tokens", json={"user": "alice"}, headers=admin)).json()["token"]
    stored = b"".join(entry.record or b"" for entry in access.stores.table.entries())
    noted = json.dumps([changes[1:] for changes in access.audit.changes])
    for secret in (given, generated, token):
        assert secret.encode() not in stored
        assert secret not in noted
    user = access.table.state.find("alice").user
    assert [KEYS.sealing.open("alice", sealed).reveal() for sealed in user.secrets] == [given, generated]
    assert {broker for broker, _by in access.stores.taken} == {"broker-a"}
    assert {author for _broker, author in access.stores.taken} == {"admin from 127.0.0.1"}


async def test_a_rotation_keeps_the_old_secret_until_a_change_drops_it(http, access, admin):
    old = access.user("alice", "Allow Pub Topic:orders")
    new = basic("alice", (await http.post("/v1/users/alice:rotate", headers=admin)).json()["secret"])
    assert [(await http.post(ORDERS, json=ONE, headers=by(one))).status_code for one in (old, new)] == [
        200,
        200,
    ]
    third = await http.post("/v1/users/alice:rotate", headers=admin)
    assert (third.status_code, third.json()["code"]) == (409, "ROTATION_OPEN")
    ended = await http.patch("/v1/users/alice", json={"dropOldSecret": True}, headers=admin)
    assert ended.json()["user"]["secrets"] == 1
    assert [(await http.post(ORDERS, json=ONE, headers=by(one))).status_code for one in (old, new)] == [
        401,
        200,
    ]


async def test_a_user_is_changed_and_deleted_with_all_that_it_has(http, access, admin):
    alice = access.user("alice", "Allow Pub Topic:orders")
    token = by(access.token("alice"))
    for change, status in (
        ({"status": "disable"}, 403),
        ({"status": "enable"}, 200),
        ({"expiresAt": "2001-01-01T00:00:00Z"}, 403),
        ({"neverExpires": True}, 200),
    ):
        assert (await http.patch("/v1/users/alice", json=change, headers=admin)).status_code == 200
        for header in (by(alice), token):
            assert (await http.post(ORDERS, json=ONE, headers=header)).status_code == status
    changed = await http.patch("/v1/users/alice", json={"secret": "another secret"}, headers=admin)
    assert changed.json()["secret"] is None
    assert (await http.post(ORDERS, json=ONE, headers=by(alice))).status_code == 401
    assert (await http.delete("/v1/users/alice", headers=admin)).json() == {
        "status": "deleted",
        "broker": "broker-a",
    }
    assert (await http.post(ORDERS, json=ONE, headers=token)).status_code == 401
    assert (await http.get("/v1/users/alice", headers=admin)).status_code == 404
    assert access.table.find(Key(Kind.POLICIES, "alice")).record is None
    await http.post("/v1/users", json={"user": "alice"}, headers=admin)
    assert (await http.get("/v1/policies/alice", headers=admin)).json()["custom"] == [], (
        "nothing is inherited"
    )


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", "/v1/users", {"user": "admin"}, 409, "USER_EXISTS"),
        ("POST", "/v1/users", {"user": "a:b"}, 400, "INVALID_PARAMETER"),
        ("POST", "/v1/users", {"user": "x", "type": "Inner"}, 400, "INVALID_PARAMETER"),
        ("POST", "/v1/users", {"user": "x", "secret": "short"}, 400, "INVALID_PARAMETER"),
        ("POST", "/v1/users", {"user": "x", "password": "12345678"}, 400, "INVALID_PARAMETER"),
        ("PATCH", "/v1/users/nobody", {}, 404, "USER_NOT_EXIST"),
        ("PATCH", "/v1/users/admin", {"neverExpires": True, "expiresAt": "2030-01-01T00:00:00Z"}, 400, "INVALID_PARAMETER"),
        ("POST", "/v1/users/nobody:rotate", {}, 404, "USER_NOT_EXIST"),
        ("PUT", "/v1/policies/nobody", {}, 404, "USER_NOT_EXIST"),
        ("PUT", "/v1/policies/admin", {"custom": [{"resource": "Topic:a*b", "actions": ["Pub"]}]}, 400, "INVALID_PARAMETER"),
        ("PUT", "/v1/policies/admin", {"custom": [{"resource": "*", "actions": ["Fly"]}]}, 400, "INVALID_PARAMETER"),
        ("PUT", "/v1/policies/admin", {"default": [{"resource": "*", "actions": ["Pub"], "networks": ["x"]}]}, 400, "INVALID_PARAMETER"),
        ("POST", "/v1/tokens", {"user": "nobody"}, 404, "USER_NOT_EXIST"),
        ("POST", "/v1/tokens", {"user": "admin", "scope": [{"resource": "x", "actions": ["Pub"]}]}, 400, "INVALID_PARAMETER"),
        ("POST", "/v1/tokens", {"user": "admin", "expiresInSeconds": 367 * 86400}, 400, "INVALID_PARAMETER"),
        ("DELETE", "/v1/tokens/none", None, 404, "TOKEN_NOT_EXIST"),
        ("DELETE", "/v1/users/nobody", None, 404, "USER_NOT_EXIST"),
    ],
)  # fmt: skip
async def test_a_change_that_cannot_be_made_stores_nothing(
    http, access, admin, method, path, body, status, code
):
    answer = await http.request(method, path, json=body, headers=admin)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert access.stores.taken == []


async def test_a_super_user_is_made_and_changed_by_a_super_user_only(http, access, root, admin):
    access.user("alice")
    attempts = [
        ("POST", "/v1/users", {"user": "eve", "type": "Super"}),
        ("PATCH", "/v1/users/alice", {"type": "Super"}),
        ("PATCH", "/v1/users/root", {"secret": "my own secret"}),
        ("PATCH", "/v1/users/root", {"status": "disable"}),
        ("POST", "/v1/users/root:rotate", {}),
        ("DELETE", "/v1/users/root", None),
        ("POST", "/v1/tokens", {"user": "root"}),
    ]
    narrow = by(access.token("root", "Update Cluster:*"))
    for header in (admin, narrow):
        for method, path, body in attempts:
            answer = await http.request(method, path, json=body, headers=header)
            assert (answer.status_code, answer.json()["field"]) == (403, "user"), (method, path)
    assert access.stores.taken == []
    whole = by(access.token("root", id="t2"))
    for header, name in ((root, "eve"), (whole, "mallory")):
        assert (
            await http.post("/v1/users", json={"user": name, "type": "Super"}, headers=header)
        ).status_code == 200


async def test_a_token_of_a_super_user_is_revoked_by_a_super_user_only(http, access, root, admin):
    access.token("root")
    refused = await http.delete("/v1/tokens/t1", headers=admin)
    assert (refused.status_code, refused.json().get("field")) == (403, "user")
    assert access.stores.taken == []
    assert (await http.delete("/v1/tokens/t1", headers=root)).status_code == 200


async def test_policies_are_replaced_shown_and_deleted(http, access, admin):
    access.user("alice", "Allow All *")
    body = {
        "custom": [{"resource": "topic:orders*", "actions": ["Pub", "Sub"], "networks": ["10.0.0.0/8"]}, {"resource": "Group:g1", "actions": ["All"], "decision": "Deny"}],
        "default": [{"resource": "*", "actions": ["Get"]}],
    }  # fmt: skip
    put = await http.put("/v1/policies/User:alice", json=body, headers=admin)
    shown = {
        "subject": "User:alice",
        "custom": [
            {"resource": "Group:g1", "actions": ["All"], "decision": "Deny", "networks": []},
            {
                "resource": "Topic:orders*",
                "actions": ["Pub", "Sub"],
                "decision": "Allow",
                "networks": ["10.0.0.0/8"],
            },
        ],
        "default": [{"resource": "*", "actions": ["Get"], "decision": "Allow", "networks": []}],
    }
    assert put.json() == {"policies": shown, "broker": "broker-a"}
    assert (await http.get("/v1/policies/alice", headers=admin)).json() == shown
    listed = (await http.get("/v1/policies?filter=ali", headers=admin)).json()
    assert listed == {"policies": [shown], "next": None}
    assert (await http.delete("/v1/policies/alice", headers=admin)).json()["status"] == "deleted"
    assert (await http.delete("/v1/policies/alice", headers=admin)).status_code == 404


async def test_a_token_is_returned_once_listed_without_its_text_and_revoked(http, access, admin):
    access.user("alice", "Allow All *")
    body = {
        "user": "alice",
        "scope": [{"resource": "Topic:orders", "actions": ["Pub"]}],
        "expiresInSeconds": 60,
    }
    made = (await http.post("/v1/tokens", json=body, headers=admin)).json()
    header = by(f"Bearer {made['token']}")
    assert (await http.post(ORDERS, json=ONE, headers=header)).status_code == 200
    assert (await http.get("/v1/topics", headers=header)).status_code == 403
    listed = await http.get("/v1/tokens?user=alice", headers=admin)
    assert listed.json()["tokens"] == [made["details"]]
    assert made["token"] not in listed.text
    assert (await http.get("/v1/tokens?user=admin", headers=admin)).json()["tokens"] == []
    assert (await http.delete(f"/v1/tokens/{made['details']['id']}", headers=admin)).status_code == 200
    assert (await http.post(ORDERS, json=ONE, headers=header)).status_code == 401


async def test_lists_continue_after_a_name(http, access, admin):
    for number in range(5):
        access.user(f"user-{number}")
    names, after = [], ""
    while after is not None:
        page = (await http.get(f"/v1/users?filter=user&max=2&after={after}", headers=admin)).json()
        names += [one["user"] for one in page["users"]]
        after = page["next"]
    assert names == [f"user-{number}" for number in range(5)]


# Explained


async def test_a_user_asks_about_itself_and_with_get_on_the_cluster_about_others(http, access, admin):
    alice = by(
        access.user("alice", "Allow Pub Topic:orders-* 10.0.0.0/8", "Allow Sub Topic:orders-eu", "Deny All *")
    )
    question = {"resource": "Topic:orders-eu", "actions": ["Pub"], "from": "10.0.0.5"}
    mine = await http.post("/v1/access:explain", json=question, headers=alice)
    assert mine.json() == {
        "user": "alice",
        "allowed": True,
        "reason": "allowed",
        "rules": [
            rule("decides", "Topic:orders-*", ["Pub"], "Allow", ["10.0.0.0/8"], ""),
            rule("no match", "Topic:orders-eu", ["Sub"], "Allow", [], "another action"),
            rule("loses", "*", ["All"], "Deny", [], "Topic:orders-* is more specific"),
        ],
        "text": "User:alice Pub on Topic:orders-eu from 10.0.0.5: allowed\n"
        "  decides    Custom: Allow Pub on Topic:orders-* from 10.0.0.0/8\n"
        "  no match   Custom: Allow Sub on Topic:orders-eu (another action)\n"
        "  loses      Custom: Deny All on * (Topic:orders-* is more specific)\n",
    }
    about = question | {"user": "alice"}
    assert (await http.post("/v1/access:explain", json=about, headers=admin)).json() == mine.json()
    others = await http.post("/v1/access:explain", json=question | {"user": "admin"}, headers=alice)
    assert (others.status_code, "Cluster:DefaultCluster" in others.json()["detail"]) == (403, True)
    narrow = by(access.token("admin", "Pub Topic:orders"))
    assert (await http.post("/v1/access:explain", json=about, headers=narrow)).status_code == 403
    unknown = (
        await http.post("/v1/access:explain", json=question | {"user": "nobody"}, headers=admin)
    ).json()
    assert (unknown["allowed"], unknown["reason"], unknown["rules"]) == (False, "unknown_user", [])


def rule(part, resource, actions, decision, networks, why):
    entry = {"resource": resource, "actions": actions, "decision": decision, "networks": networks}
    return {"part": part, "type": "Custom", "entry": entry, "why": why}


@pytest.mark.parametrize(
    "wrong", [{"resource": "x"}, {"actions": ["Fly"]}, {"actions": []}, {"from": "here"}]
)
async def test_a_question_that_is_none_is_400(http, admin, wrong):
    question = {"resource": "Topic:t", "actions": ["Pub"]} | wrong
    assert (await http.post("/v1/access:explain", json=question, headers=admin)).status_code == 400


async def test_who_am_i_shows_user_scope_and_end(http, access, root):
    assert (await http.get("/v1/access:whoami", headers=root)).json() == {
        "user": "root", "type": "Super", "way": "secret", "tokenId": None, "scope": None, "endsAt": None, "address": "127.0.0.1",
    }  # fmt: skip
    token = by(access.token("root", "Pub Topic:orders"))
    assert (await http.get("/v1/access:whoami", headers=token)).json() == {
        "user": "root", "type": "Super", "way": "token", "tokenId": "t1", "scope": [{"resource": "Topic:orders", "actions": ["Pub"]}],
        "endsAt": "2023-11-14T22:14:20.000Z", "address": "127.0.0.1",
    }  # fmt: skip


# Stores


async def test_the_next_store_takes_a_change_if_one_is_away(pair, access, admin, connect):
    access.stores.away["broker-a"] = PeerAway("broker-a", True, "no answer")
    async with connect(pair.gateway(access_parts=access.parts, **SETTINGS)) as http:
        made = await http.post("/v1/users", json={"user": "alice"}, headers=admin)
        assert made.json()["broker"] == "broker-b"
        access.stores.away["broker-b"] = PeerAway("broker-b", False, "not connected")
        refused = await http.post("/v1/users", json={"user": "bob"}, headers=admin)
        assert (refused.status_code, refused.json()["retryable"]) == (503, True)
        assert access.table.state.find("bob") is None


async def test_a_store_that_does_not_know_the_request_is_named(http, access, admin):
    for code, word in (
        (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, ""),
        (ResponseCode.SYSTEM_ERROR, "ACCESS_OFF"),
    ):
        access.stores.away["broker-a"] = StoreRefused(code, "9056", word)
        refused = await http.post("/v1/users", json={"user": "alice"}, headers=admin)
        assert (refused.status_code, refused.json()["retryable"]) == (501, False)


async def test_of_two_changes_at_one_time_the_second_is_409(http, access, admin):
    access.user("alice")
    elsewhere = access.stores.table
    other = elsewhere.find(Key(Kind.USER, "alice"))
    elsewhere.take([other._replace(stamp_ms=other.stamp_ms + 1)])  # not seen here yet
    refused = await http.patch("/v1/users/alice", json={"status": "disable"}, headers=admin)
    assert (refused.status_code, refused.json()["code"]) == (409, "ACCESS_CONFLICT")
    access.table.take(elsewhere.entries())
    assert (await http.patch("/v1/users/alice", json={"status": "disable"}, headers=admin)).status_code == 200


async def test_changes_are_noted_with_what_was_before_and_after(http, access, admin):
    access.user("alice")
    await http.patch("/v1/users/alice", json={"status": "disable"}, headers=admin)
    ((asked, before, after),) = access.audit.changes
    assert (asked.user, asked.address, asked.request) == ("admin", "127.0.0.1", "PATCH /v1/users/alice")
    assert (json.loads(before)["status"], json.loads(after)["status"]) == ("enable", "disable")


# Off


async def test_without_access_control_these_calls_are_404_with_that_reason(client):
    question = {"resource": "Topic:t", "actions": ["Pub"]}
    for method, path, body in (
        ("GET", "/v1/users", None), ("POST", "/v1/users", {"user": "a"}), ("GET", "/v1/policies/a", None), ("GET", "/v1/tokens", None),
        ("POST", "/v1/access:explain", question), ("GET", "/v1/access:whoami", None), ("POST", "/v1/users/a:rotate", None),
    ):  # fmt: skip
        answer = await client.request(method, path, json=body)
        assert (answer.status_code, "access control is off" in answer.json()["detail"]) == (404, True)
