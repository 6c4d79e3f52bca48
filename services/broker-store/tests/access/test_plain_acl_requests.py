"""Requests 50 to 53 of RocketMQ 4.9 on users and policies."""

import json

import pytest
from access_side import CLERK, AccessSide

pytestmark = pytest.mark.anyio
UPDATE, DELETE, VERSION, ADDRESSES = 50, 51, 52, 53


def entries(side: AccessSide, name: str) -> list[str]:
    account = side.access_table.state.find(name)
    assert account is not None
    policies = account.policies
    return [entry.text for entry in policies.custom] + [f"default {one.text}" for one in policies.default]


async def test_an_account_is_created_with_its_permissions():
    side = AccessSide()
    fields = {
        "accessKey": "alice01", "secretKey": "12345678", "topicPerms": "t=PUB,u=DENY", "groupPerms": "g=SUB",
        "defaultTopicPerm": "DENY", "defaultGroupPerm": "SUB", "whiteRemoteAddress": "192.168.1.*",
    }  # fmt: skip
    await side.done(UPDATE, fields)
    assert entries(side, "alice01") == [
        "Allow Sub on Group:g from 192.168.1.0/24",
        "Allow Pub on Topic:t from 192.168.1.0/24",
        "Deny All on Topic:u",
        "default Allow Sub on Group:* from 192.168.1.0/24",
        "default Deny All on Topic:*",
    ]
    assert len(side.access_table.signing_keys("alice01")) == 1


async def test_given_fields_replace_and_the_others_stay():
    side = AccessSide()
    fields = {
        "accessKey": "alice01", "secretKey": "s", "topicPerms": "t=PUB", "defaultTopicPerm": "SUB",
        "whiteRemoteAddress": "10.*.*.*",
    }  # fmt: skip
    await side.done(UPDATE, fields)
    keys = side.access_table.signing_keys("alice01")
    await side.done(UPDATE, {"accessKey": "alice01", "groupPerms": "g=PUB|SUB"})
    assert entries(side, "alice01") == [
        "Allow Pub, Sub on Group:g from 10.0.0.0/8",
        "Allow Pub on Topic:t from 10.0.0.0/8",
        "Deny Sub on Topic:t",
        "default Allow Sub on Topic:* from 10.0.0.0/8",
    ]
    assert len(side.access_table.signing_keys("alice01")) == len(keys) == 1
    sealed = side.entries["user", "alice01"]
    await side.done(UPDATE, {"accessKey": "alice01", "topicPerms": "", "whiteRemoteAddress": ""})
    assert entries(side, "alice01") == ["Allow Pub, Sub on Group:g", "default Allow Sub on Topic:*"]
    assert side.entries["user", "alice01"] == sealed
    await side.done(UPDATE, {"accessKey": "alice01", "secretKey": "other"})
    assert side.entries["user", "alice01"] != sealed


async def test_policies_that_acl_1_cannot_say_are_not_lost_in_silence():
    side = AccessSide()
    await side.done(UPDATE, {"accessKey": "alice01", "secretKey": "s", "topicPerms": "t=PUB"})
    entry = {"resource": "Topic:t*", "actions": ["Get"], "decision": "Deny"}
    body = json.dumps({"policies": [{"entries": [entry]}]}).encode()
    await side.done(3006, {"subject": "User:alice01"}, body)
    before = entries(side, "alice01")
    code, remark = await side.refused(UPDATE, {"accessKey": "alice01", "groupPerms": "g=SUB"})
    assert code == 209
    assert remark.startswith("ACL 1.0 cannot say 'Deny Get on Topic:t*'")
    assert entries(side, "alice01") == before


async def test_illegal_accounts_are_refused_with_the_reason():
    side = AccessSide()
    assert await side.refused(UPDATE, {"accessKey": "alice01"}) == (
        209, "account 1 ('alice01') was not read: it has no secretKey",
    )  # fmt: skip
    code, remark = await side.refused(UPDATE, {"accessKey": "a", "secretKey": "s", "topicPerms": "t=ALL"})
    assert code == 209
    assert "topicPerms has the permission 'ALL'" in remark
    assert not side.entries


async def test_only_a_super_user_makes_an_admin():
    side = AccessSide()
    await side.done(UPDATE, {"accessKey": "boss", "secretKey": "s", "admin": "true"})
    side.asker = CLERK
    assert await side.refused(UPDATE, {"accessKey": "eve", "secretKey": "s", "admin": "true"}) == (
        1, "The super user can only be create by super user",
    )  # fmt: skip
    for change in ({"secretKey": "mine"}, {"admin": "false"}, {"topicPerms": "t=PUB"}):
        assert (await side.refused(UPDATE, {"accessKey": "boss", **change}))[0] == 16
    assert (await side.refused(DELETE, {"accessKey": "boss"}))[0] == 16


async def test_an_account_is_deleted_and_an_absent_one_reported():
    side = AccessSide()
    await side.done(UPDATE, {"accessKey": "alice01", "secretKey": "s", "topicPerms": "t=PUB"})
    await side.done(DELETE, {"accessKey": "alice01"})
    assert side.access_table.state.find("alice01") is None
    assert (await side.refused(DELETE, {"accessKey": "alice01"}))[0] == 210


async def test_the_version_changes_with_every_change():
    side = AccessSide()
    first = (await side.asked(VERSION)).ext
    await side.done(UPDATE, {"accessKey": "alice01", "secretKey": "s"})
    second = (await side.asked(VERSION)).ext
    assert first["version"] != second["version"]
    assert json.loads(second["version"])["timestamp"] > 0
    assert json.loads(second["allAclFileVersion"])["plain_acl.yml"] == json.loads(second["version"])
    assert (second["brokerName"], second["clusterName"]) == ("broker-a", "DefaultCluster")
    assert second["brokerAddr"] == "127.0.0.1:10911"


async def test_global_white_addresses_open_nothing():
    side = AccessSide()
    code, remark = await side.refused(ADDRESSES, {"globalWhiteAddrs": "10.10.103.*"})
    assert code == 211
    assert "without a signature" in remark
    await side.done(ADDRESSES, {"globalWhiteAddrs": ""})
