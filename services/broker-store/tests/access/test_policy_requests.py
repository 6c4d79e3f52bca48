"""Requests 3006 to 3010 with RocketMQ's texts and codes, on a whole store."""

import json
from typing import Any

import pytest
from access_side import AccessSide

pytestmark = pytest.mark.anyio
CREATE, UPDATE, DELETE, GET, LIST = 3006, 3007, 3008, 3009, 3010


async def with_users(*names: str) -> AccessSide:
    side = AccessSide()
    for name in names:
        await side.done(3001, {"username": name}, b'{"password":"x"}')
    return side


def of(name: str, **fields: str) -> dict[str, str]:
    return {"subject": f"User:{name}", **fields}


def acl(*entries: tuple[str, list[str], str], kind: str = "Custom", ips: list[str] | None = None) -> bytes:
    found = [
        {"resource": resource, "actions": actions, "decision": decision, "sourceIps": ips}
        for resource, actions, decision in entries
    ]
    return json.dumps({"policies": [{"policyType": kind, "entries": found}]}).encode()


def rows(found: Any) -> list[tuple[str, ...]]:
    return [
        (policy["policyType"], entry["resource"], *entry["actions"], entry["decision"])
        for policy in found["policies"]
        for entry in policy["entries"]
    ]


async def test_policies_are_created_merged_and_deleted():
    side = await with_users("alice")
    assert await side.done(GET, of("alice")) is None
    await side.done(CREATE, of("alice"), acl(("Topic:t", ["Pub"], "Allow"), ("Group:g*", ["Sub"], "Deny")))
    await side.done(UPDATE, of("alice"), acl(("Topic:t", ["Sub"], "Allow"), kind="custom"))
    await side.done(CREATE, of("alice"), acl(("*", ["Get"], "Allow"), kind="Default"))
    whole = await side.done(GET, of("alice"))
    assert whole["subject"] == "User:alice"
    assert sorted(rows(whole)) == [
        ("Custom", "Group:g*", "Sub", "Deny"),
        ("Custom", "Topic:t", "Sub", "Allow"),
        ("Default", "*", "Get", "Allow"),
    ]
    await side.done(DELETE, of("alice", resource="*", policyType="Default"))
    await side.done(DELETE, of("alice", resource="Topic:t"))
    assert rows(await side.done(GET, of("alice"))) == [("Custom", "Group:g*", "Sub", "Deny")]
    await side.done(DELETE, of("alice"))
    assert await side.done(GET, of("alice")) is None
    await side.done(DELETE, of("alice"))


async def test_the_subject_of_the_body_counts_before_that_of_the_header():
    side = await with_users("alice", "bob")
    content = json.loads(acl(("Topic:t", ["Pub"], "Allow"))) | {"subject": "User:bob"}
    await side.done(CREATE, of("alice"), json.dumps(content).encode())
    assert await side.done(GET, of("alice")) is None
    assert rows(await side.done(GET, of("bob"))) == [("Custom", "Topic:t", "Pub", "Allow")]


async def test_a_list_is_filtered_by_subject_and_resource():
    side = await with_users("alice", "bob", "carol")
    assert await side.done(LIST) is None
    await side.done(CREATE, of("alice"), acl(("Topic:t", ["Pub"], "Allow"), ("Group:bob", ["Sub"], "Allow")))
    await side.done(CREATE, of("bob"), acl(("Topic:u", ["Pub"], "Allow")))
    assert [one["subject"] for one in await side.done(LIST)] == ["User:alice", "User:bob"]
    assert [one["subject"] for one in await side.done(LIST, {"subjectFilter": "ali"})] == ["User:alice"]
    (found,) = await side.done(LIST, {"resourceFilter": "Topic:t"})
    assert rows(found) == [("Custom", "Topic:t", "Pub", "Allow")]
    both = await side.done(LIST, {"resourceFilter": "bob"})
    assert [len(rows(one)) for one in both] == [1, 1], "a filter that the subject contains does not count"
    assert await side.done(LIST, {"resourceFilter": "Topic:nothing"}) is None


async def test_refusals_have_rocketmqs_codes_and_texts():
    side = await with_users("alice")
    one = acl(("Topic:t", ["Pub"], "Allow"))
    assert await side.refused(CREATE, of("bob"), one) == (16, "The subject of User:bob is not exist.")
    assert await side.refused(UPDATE, of("bob"), one) == (16, "The subject of User:bob is not exist.")
    assert await side.refused(GET, of("bob")) == (16, "The subject is not exist.")
    assert await side.refused(DELETE, of("bob")) == (16, "The subject is not exist.")
    assert await side.refused(DELETE, of("alice", resource="Topic:t")) == (16, "The acl is not exist.")
    assert await side.refused(CREATE, of("alice"), b"{}") == (16, "The policies is empty.")
    for body, remark in (
        (acl(("", ["Pub"], "Allow")), "The resource is null."),
        (acl(("Topic:t", [], "Allow")), "The actions is empty."),
        (acl(("Topic:t", ["Any"], "Allow")), "The actions can not be Any."),
        (acl(("Topic:t", ["Pub"], "Allow"), ips=["here"]), "The source ip is invalid."),
        (acl(("Topic:t", ["Pub"], "Perhaps")), "The decision is null or illegal."),
    ):
        assert await side.refused(CREATE, of("alice"), body) == (16, remark)
    assert ("policies", "alice") not in side.entries


async def test_policies_count_at_once_and_outlive_a_kill():
    side = await with_users("alice")
    await side.done(CREATE, of("alice"), acl(("Topic:t", ["Pub"], "Deny"), ips=["10.0.0.0/8"]))
    again = side.reopen()
    assert again.entries == side.entries
    account = again.access_table.state.find("alice")
    assert account is not None
    (entry,) = account.policies.custom
    assert entry.text == "Deny Pub on Topic:t from 10.0.0.0/8"


async def test_a_deletion_that_another_store_has_just_made_is_no_error():
    side = await with_users("alice")
    await side.done(CREATE, of("alice"), acl(("Topic:t", ["Pub"], "Allow")))
    await side.done(DELETE, of("alice", resource="Topic:t"))
    assert await side.refused(DELETE, of("alice", resource="Topic:t")) == (16, "The acl is not exist.")
    side.control.followed.note(side.store.states.access.entries())
    await side.done(DELETE, of("alice", resource="Topic:t"))
