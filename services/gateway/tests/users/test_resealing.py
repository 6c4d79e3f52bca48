"""Secrets of an old key are sealed again with the current one, and work before and after; others stay as they are."""

from __future__ import annotations

import json

import pytest
from gateway_guarded import KEYS, SETTINGS, Access, basic, by

from gantry_access.entries.contents import user_entry
from gantry_access.entries.entry import Key, Kind
from gantry_access.formats.stored_records import encode_user
from gantry_access.model.users import User, UserType
from gantry_access.secrets.hidden_text import HiddenText
from gantry_guard.cluster_keys import ClusterKeys
from gateway.users import accounts
from gateway.users.resealing import reseal_all

pytestmark = pytest.mark.anyio
OLD, NEW = bytes(range(32)), bytes(range(1, 33))
BOTH = ClusterKeys({"k2": NEW, "k1": OLD})
ALONE = ClusterKeys({"k2": NEW})
STRANGE = ClusterKeys({"k9": bytes(32)})


@pytest.fixture
def access(anyio_backend):
    return Access(keys=BOTH)


@pytest.fixture
def root(access):
    return by(access.user("root", kind=UserType.SUPER))


@pytest.fixture
async def http(system, access, connect):
    async with connect(system.gateway(access_parts=access.parts, **SETTINGS)) as client:
        yield client


def sealed_by(access, user: str) -> set[str]:
    return {sealed.split(".")[1] for sealed in access.table.state.find(user).user.secrets}


async def test_every_secret_of_an_old_key_is_sealed_again_and_the_old_key_is_not_needed_any_more(
    http, access, root
):
    alice = by(access.user("alice"))
    await http.post("/v1/users/alice:rotate", json={"secret": "a newer secret"}, headers=root)
    assert sealed_by(access, "alice") == {"k1", "k2"}
    found = await http.post("/v1/access:reseal", json={"dryRun": True}, headers=root)
    assert (found.status_code, found.json()) == (
        200,
        {"users": ["root", "alice"], "unopened": [], "dryRun": True},
    )
    assert sealed_by(access, "alice") == {"k1", "k2"}
    done = await http.post("/v1/access:reseal", headers=root)
    assert done.json() == {"users": ["root", "alice"], "unopened": [], "dryRun": False}
    assert sealed_by(access, "alice") == sealed_by(access, "root") == {"k2"}
    for header in (alice, by(basic("alice", "a newer secret"))):
        assert (await http.get("/v1/access:whoami", headers=header)).status_code == 200
    stored = access.table.state.find("alice").user
    assert [ALONE.sealing.open("alice", one).reveal() for one in stored.secrets] == [
        "secret-of-alice",
        "a newer secret",
    ]
    again = await http.post("/v1/access:reseal", headers=root)
    assert again.json() == {"users": [], "unopened": [], "dryRun": False}


async def test_a_secret_that_no_key_opens_stays_and_is_named(http, access, root):
    sealed = STRANGE.sealing.seal("bob", HiddenText("lost"), bytes(12))
    access.take(user_entry(User("bob", secrets=(sealed,)), access.stamp(Kind.USER, "bob")))
    done = (await http.post("/v1/access:reseal", headers=root)).json()
    assert [one["user"] for one in done["unopened"]] == ["bob"]
    assert "k9" in done["unopened"][0]["reason"]
    assert done["users"] == ["root"]
    assert access.table.state.find("bob").user.secrets == (sealed,)


async def test_many_users_travel_in_several_changes_without_a_secret_in_the_audit_log(
    http, access, root, monkeypatch
):
    monkeypatch.setattr(accounts, "RESEALED_AT_ONCE", 3)
    for n in range(7):
        access.user(f"u{n}")
    assert len((await http.post("/v1/access:reseal", headers=root)).json()["users"]) == 8
    assert len(access.stores.taken) == 3
    noted = [json.loads(after) for _asked, _before, after in access.audit.changes]
    assert [len(one) for one in noted] == [3, 3, 2]
    assert "sealed1" not in json.dumps(noted)


async def test_a_user_that_another_one_changed_meanwhile_is_409_and_a_repeat_continues(http, access, root):
    access.user("alice")
    elsewhere = access.stores.table
    other = elsewhere.find(Key(Kind.USER, "alice"))
    elsewhere.take([other._replace(stamp_ms=other.stamp_ms + 1)])
    refused = await http.post("/v1/access:reseal", headers=root)
    assert (refused.status_code, refused.json()["code"]) == (409, "ACCESS_CONFLICT")
    access.table.take(elsewhere.entries())
    assert (await http.post("/v1/access:reseal", headers=root)).json()["users"] == ["root", "alice"]


async def test_it_needs_update_on_the_cluster(http, access):
    alice = by(access.user("alice", "Allow Get Cluster:DefaultCluster"))
    assert (await http.post("/v1/access:reseal", headers=alice)).status_code == 403


def test_a_user_keeps_everything_but_the_seal():
    sealed = KEYS.sealing.seal("a", HiddenText("secret"), bytes(12))
    user = User("a", UserType.SUPER, secrets=(sealed,), expires_ms=5)
    [(before, after)] = reseal_all([user], BOTH.sealing, bytes).changed
    assert before is user
    assert encode_user(after) == encode_user(user).replace(sealed.encode(), after.secrets[0].encode())
