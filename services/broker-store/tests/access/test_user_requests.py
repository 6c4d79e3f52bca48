"""Requests 3001 to 3005 with RocketMQ's texts and codes, on a whole store."""

import asyncio
import json

import pytest
from access_side import CLERK, AccessSide

from broker_store.access.asker import Asker
from gantry_access.entries.entry import Key, Kind
from gantry_access.model.users import UserType

pytestmark = pytest.mark.anyio
CREATE, UPDATE, DELETE, GET, LIST = 3001, 3002, 3003, 3004, 3005


def body(**fields: str) -> bytes:
    return json.dumps(fields).encode()


def of(name: str) -> dict[str, str]:
    return {"username": name}


async def create(side: AccessSide, name: str, password: str = "secret", **fields: str) -> None:
    await side.done(CREATE, of(name), body(username=name, password=password, **fields))


async def test_a_user_is_created_read_changed_and_deleted():
    side = AccessSide()
    await create(side, "alice")
    alice = {"username": "alice", "userType": "Normal", "userStatus": "enable"}
    assert await side.done(GET, of("alice")) == alice
    await side.done(UPDATE, of("alice"), body(userStatus="disable"))
    assert await side.done(GET, of("alice")) == alice | {"userStatus": "disable"}
    await side.done(UPDATE, of("alice"), body(userType="super"))
    assert await side.done(GET, of("alice")) == alice | {"userStatus": "disable", "userType": "Super"}
    await side.done(DELETE, of("alice"))
    assert await side.done(GET, of("alice")) is None
    await side.done(DELETE, of("alice"))


async def test_a_password_is_sealed_and_replaced_and_never_answered():
    side = AccessSide()
    await create(side, "alice", "first secret")
    (first,) = side.access_table.signing_keys("alice")
    await side.done(UPDATE, of("alice"), body(password="second secret"))
    (second,) = side.access_table.signing_keys("alice")
    assert first is not second
    await side.done(UPDATE, of("alice"), body(userStatus="enable"))
    assert len(side.access_table.signing_keys("alice")) == 1
    await side.done(LIST, {"filter": ""})
    sent = b"".join(answer.body for answer in side.client.answers)
    stored = b"".join(record or b"" for record in side.entries.values())
    for secret in (b"first secret", b"second secret"):
        assert secret not in sent + stored
    assert b"sealed1" not in sent


async def test_a_list_is_filtered_by_a_part_of_the_name():
    side = AccessSide()
    assert await side.done(LIST, {"filter": ""}) is None
    for name in ("bob", "alice", "alicia"):
        await create(side, name)
    assert [user["username"] for user in await side.done(LIST)] == ["alice", "alicia", "bob"]
    assert [user["username"] for user in await side.done(LIST, {"filter": "lic"})] == ["alice", "alicia"]
    assert await side.done(LIST, {"filter": "nobody"}) is None


async def test_refusals_have_rocketmqs_codes_and_texts():
    side = AccessSide()
    await create(side, "alice")
    assert await side.refused(CREATE, of("alice"), body(password="x")) == (16, "The user is existed")
    assert await side.refused(CREATE, of("bob"), body()) == (16, "password can not be blank")
    assert await side.refused(CREATE, of(" "), body(password="x")) == (29, "The username is blank")
    assert await side.refused(GET, of("")) == (29, "The username is blank")
    assert await side.refused(DELETE, of("")) == (29, "The username is blank")
    assert await side.refused(UPDATE, of("bob"), body(password="x")) == (16, "The user is not exist")
    assert set(side.entries) == {("user", "alice")}


async def test_only_a_super_user_makes_changes_or_deletes_super_users():
    side = AccessSide()
    await create(side, "boss", userType="Super")
    side.asker = CLERK
    created = (1, "The super user can only be create by super user")
    updated = "The super user can only be update by super user"
    assert await side.refused(CREATE, of("eve"), body(password="x", userType="Super")) == created
    assert await side.refused(UPDATE, of("boss"), body(password="x")) == (16, updated)
    assert await side.refused(DELETE, of("boss")) == (16, updated)
    await create(side, "mallory")
    assert await side.refused(UPDATE, of("mallory"), body(userType="Super")) == (1, updated)
    side.asker = Asker("", UserType.INNER, "10.0.0.3")
    await side.done(UPDATE, of("mallory"), body(userType="Super"))
    await side.done(DELETE, of("boss"))


async def test_a_deleted_user_leaves_nothing_to_a_later_one_of_its_name():
    side = AccessSide()
    await create(side, "alice")
    policy = {"policies": [{"entries": [{"resource": "Topic:t", "actions": ["Pub"], "decision": "Allow"}]}]}
    await side.done(3006, {"subject": "User:alice"}, json.dumps(policy).encode())
    stored = side.access_table.find(Key(Kind.POLICIES, "alice"))
    await side.done(DELETE, of("alice"))
    assert side.entries == {("user", "alice"): None, ("policies", "alice"): None}
    assert stored is not None
    # another store brings policies of the deleted user that are newer than the deletion
    await side.finish(side.access.log.append([stored._replace(stamp_ms=stored.stamp_ms + 1_000_000)]))
    await create(side, "alice")
    account = side.access_table.state.find("alice")
    assert account is not None
    assert account.policies.custom == ()


async def test_changes_wait_for_each_other():
    side = AccessSide()
    opaques = [side.ask(side.client, CREATE, of("alice"), body(password=str(number))) for number in range(5)]

    async def codes() -> list[int]:
        while not all(side.answer_to(opaque) for opaque in opaques):
            await asyncio.sleep(0)
        return sorted(answer.code for answer in side.client.answers)

    assert await side.finish(codes()) == [0, 16, 16, 16, 16]


async def test_a_change_is_audited_with_before_and_after():
    side = AccessSide()
    await create(side, "alice")
    await side.done(UPDATE, of("alice"), body(userStatus="disable"))
    assert await side.refused(CREATE, of("alice"), body(password="x")) == (16, "The user is existed")
    (asker, nothing, created), (_, before, after) = side.audited
    assert asker.name == "root"
    assert nothing is None
    assert before == created
    assert b"disable" in (after.record or b"")


async def test_users_outlive_a_kill():
    side = AccessSide()
    await create(side, "alice")
    await create(side, "bob")
    await side.done(DELETE, of("bob"))
    again = side.reopen()
    assert again.entries == side.entries
    assert await again.done(GET, of("alice")) is not None
    assert await again.done(GET, of("bob")) is None
    assert len(again.access_table.signing_keys("alice")) == 1


async def test_a_tool_that_creates_a_user_in_a_whole_cluster_succeeds_on_the_store_that_has_it_already():
    side = AccessSide()
    await create(side, "alice", "secret")
    assert await side.refused(CREATE, of("alice"), body(password="secret")) == (16, "The user is existed")
    came = [entry for entry in side.store.states.access.entries() if entry.name == "alice"]
    side.control.followed.note(came)
    await create(side, "alice", "secret")
    existed = (16, "The user is existed")
    assert await side.refused(CREATE, of("alice"), body(password="other")) == existed
    assert await side.refused(CREATE, of("alice"), body(password="secret", userType="Super")) == existed
    assert side.store.states.access.version == 1
