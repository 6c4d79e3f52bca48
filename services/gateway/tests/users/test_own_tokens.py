"""Tokens that a user without rights on the cluster makes, lists and revokes for itself: never more than what proves the user has."""

from __future__ import annotations

import pytest
from gateway_guarded import BEGIN_MS, SETTINGS, Access, by

from gateway.messages.message_view import rfc3339
from gateway.users.own_tokens import OWN_TOKENS_MAX

pytestmark = pytest.mark.anyio
ORDERS = "/v1/topics/orders/messages"
ONE = {"messages": [{"body": "x"}]}
PUB_ORDERS = {"resource": "Topic:orders", "actions": ["Pub"]}
EVERYTHING = {"resource": "*", "actions": ["All"]}


@pytest.fixture
def access(anyio_backend):
    return Access()


@pytest.fixture
def alice(access):
    return by(access.user("alice", "Allow Pub/Sub Topic:orders"))


@pytest.fixture
def admin(access):
    return by(access.user("admin", "Allow Get/Update Cluster:DefaultCluster"))


@pytest.fixture
async def http(system, access, connect):
    async with connect(system.gateway(access_parts=access.parts, **SETTINGS)) as client:
        yield client


async def test_a_user_makes_lists_and_revokes_its_own_tokens(http, alice):
    made = await http.post("/v1/tokens", json={"user": "alice", "scope": [PUB_ORDERS]}, headers=alice)
    assert made.status_code == 200
    token, details = by(f"Bearer {made.json()['token']}"), made.json()["details"]
    assert (await http.post(ORDERS, json=ONE, headers=token)).status_code == 200
    assert (await http.get("/v1/tokens?user=alice", headers=alice)).json()["tokens"] == [details]
    assert (await http.delete(f"/v1/tokens/{details['id']}", headers=alice)).status_code == 200
    assert (await http.post(ORDERS, json=ONE, headers=token)).status_code == 401


async def test_an_own_token_has_no_right_that_its_user_has_not(http, alice):
    body = {"user": "alice", "scope": [EVERYTHING]}
    token = by(f"Bearer {(await http.post('/v1/tokens', json=body, headers=alice)).json()['token']}")
    assert (await http.post(ORDERS, json=ONE, headers=token)).status_code == 200
    assert (await http.post("/v1/topics/pay/messages", json=ONE, headers=token)).status_code == 403
    assert (await http.post("/v1/users", json={"user": "eve"}, headers=token)).status_code == 403


async def test_tokens_of_others_need_the_right_on_the_cluster_and_tell_nothing_without_it(
    http, access, alice, admin
):
    access.user("bob")
    access.token("bob", id="of-bob")
    asked = [
        ("POST", "/v1/tokens", {"user": "bob"}),
        ("POST", "/v1/tokens", {"user": "nobody"}),
        ("GET", "/v1/tokens?user=bob", None),
        ("GET", "/v1/tokens?user=nobody", None),
        ("GET", "/v1/tokens", None),
        ("DELETE", "/v1/tokens/of-bob", None),
        ("DELETE", "/v1/tokens/of-nobody", None),
    ]
    details = set()
    for method, path, body in asked:
        answer = await http.request(method, path, json=body, headers=alice)
        assert answer.status_code == 403, (method, path)
        details.add(answer.json()["detail"])
    assert len(details) == 1, details
    assert [one["id"] for one in (await http.get("/v1/tokens", headers=admin)).json()["tokens"]] == ["of-bob"]
    assert (await http.delete("/v1/tokens/of-nobody", headers=admin)).status_code == 404
    assert (await http.delete("/v1/tokens/of-bob", headers=admin)).status_code == 200


async def test_the_permissive_mode_opens_no_token_of_another_user(system, connect, anyio_backend):
    access = Access(is_permissive=True)
    alice = by(access.user("alice"))
    access.user("bob")
    access.token("bob", id="of-bob")
    async with connect(system.gateway(access_parts=access.parts, **SETTINGS)) as http:
        for method, path, body in (
            ("POST", "/v1/tokens", {"user": "bob"}),
            ("GET", "/v1/tokens", None),
            ("DELETE", "/v1/tokens/of-bob", None),
        ):
            assert (await http.request(method, path, json=body, headers=alice)).status_code == 403
            assert (await http.request(method, path, json=body)).status_code == 401
    assert access.stores.taken == []


@pytest.mark.parametrize(
    "scope",
    [
        [EVERYTHING],
        [{"resource": "Topic:*", "actions": ["Pub"]}],
        [{"resource": "Topic:orders", "actions": ["Pub", "Sub"]}],
        [{"resource": "Topic:orders", "actions": ["All"]}],
        [PUB_ORDERS, {"resource": "Topic:pay", "actions": ["Pub"]}],
    ],
)
async def test_a_token_makes_no_wider_token(http, access, alice, scope):
    narrow = by(access.token("alice", "Pub Topic:orders"))
    answer = await http.post("/v1/tokens", json={"user": "alice", "scope": scope}, headers=narrow)
    assert (answer.status_code, answer.json()["field"]) == (403, "scope")
    assert access.stores.taken == []


async def test_a_token_without_a_scope_has_that_of_the_token_that_makes_it(http, access, alice):
    narrow = by(access.token("alice", "Pub Topic:orders", "Sub Topic:orders"))
    made = (await http.post("/v1/tokens", json={"user": "alice"}, headers=narrow)).json()["details"]
    assert [one["actions"] for one in made["scope"]] == [["Pub"], ["Sub"]]
    both = [{"resource": "Topic:orders", "actions": ["Pub", "Sub"]}]
    again = await http.post("/v1/tokens", json={"user": "alice", "scope": both}, headers=narrow)
    assert again.status_code == 200, "two entries together cover it"


async def test_a_token_ends_with_the_token_that_makes_it_at_the_latest(http, access, alice):
    short = by(access.token("alice", seconds=60))
    for seconds, lasts in ((None, 60), (3600, 60), (10, 10)):
        body = {"user": "alice"} | ({} if seconds is None else {"expiresInSeconds": seconds})
        made = (await http.post("/v1/tokens", json=body, headers=short)).json()["details"]
        assert made["expiresAt"] == rfc3339(BEGIN_MS + lasts * 1000), seconds


async def test_a_token_reaches_the_tokens_inside_of_its_scope_and_itself(http, access, alice):
    access.token("alice", id="whole")
    narrow = by(access.token("alice", "Pub Topic:orders", id="narrow"))
    access.token("alice", "Pub Topic:orders", id="same")
    listed = await http.get("/v1/tokens?user=alice", headers=narrow)
    assert [one["id"] for one in listed.json()["tokens"]] == ["narrow", "same"]
    assert (await http.delete("/v1/tokens/whole", headers=narrow)).status_code == 403
    assert (await http.delete("/v1/tokens/same", headers=narrow)).status_code == 200
    assert (await http.delete("/v1/tokens/narrow", headers=narrow)).status_code == 200
    assert (await http.get("/v1/tokens?user=alice", headers=narrow)).status_code == 401


async def test_the_number_of_own_tokens_is_bounded_also_of_those_that_were_revoked(http, access, alice):
    ids = []
    for _ in range(OWN_TOKENS_MAX):
        made = await http.post("/v1/tokens", json={"user": "alice"}, headers=alice)
        ids.append(made.json()["details"]["id"])
    refused = await http.post("/v1/tokens", json={"user": "alice"}, headers=alice)
    assert (refused.status_code, refused.json()["code"]) == (409, "TOO_MANY_TOKENS")
    kept = len(access.table)
    for _ in range(3):
        assert (await http.delete(f"/v1/tokens/{ids[0]}", headers=alice)).status_code == 200
        made = await http.post("/v1/tokens", json={"user": "alice"}, headers=alice)
        assert made.status_code == 200
    assert len(access.table) == kept, "a place is used again, so that nobody fills the table"
    access.now_ms += 31 * 86_400_000
    again = await http.post("/v1/tokens", json={"user": "alice"}, headers=alice)
    assert again.status_code == 200, "tokens that ended leave their places"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/users", {"user": "eve"}),
        ("PATCH", "/v1/users/admin", {"secret": "another secret"}),
        ("POST", "/v1/users/admin:rotate", {}),
        ("PUT", "/v1/policies/admin", {"custom": [EVERYTHING]}),
        ("DELETE", "/v1/policies/admin", None),
        ("POST", "/v1/tokens", {"user": "alice"}),
    ],
)
async def test_a_token_of_an_administrator_changes_users_only_if_its_scope_has_the_cluster(
    http, access, alice, admin, method, path, body
):
    narrow = by(access.token("admin", "All Topic:*", "All Group:*", "Get Cluster:*"))
    assert (await http.request(method, path, json=body, headers=narrow)).status_code == 403
    assert access.stores.taken == []
    scoped = by(access.token("admin", "Update Cluster:DefaultCluster", id="t2"))
    assert (await http.request(method, path, json=body, headers=scoped)).status_code == 200
