"""Requests 200, 201, 207, 225 and 352: create, list, change and delete groups; presets; the file in RocketMQ's format."""

import pytest
from reading_side import ReadingSide

from broker_store.commit.appends import disk_full
from broker_store.groups.groups import GroupTable
from gantry_wire.bodies import fastjson
from gantry_wire.bodies.cluster import SubscriptionGroupConfig, SubscriptionGroupWrapper
from gantry_wire.bodies.json_body import decode_body
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import IllegalName, RefusedRequest
from gantry_wire.names import GATEWAY_GROUP, PRESET_GROUPS

pytestmark = pytest.mark.anyio


@pytest.fixture
async def side(tmp_path):
    side = ReadingSide(tmp_path)
    yield side
    await side.consuming.stop()


def table(auto_create=True, changed=None):
    on_change = [].append if changed is None else changed.append
    return GroupTable(_Version(), SubscriptionGroupWrapper(), auto_create=auto_create, on_change=on_change)


class _Version:
    def __init__(self):
        self.bumps = 0

    def bump(self):
        self.bumps += 1


def test_every_store_has_the_presets_and_hides_the_gateways_group():
    groups = table()
    assert set(groups.names()) == set(PRESET_GROUPS)
    assert groups.find(GATEWAY_GROUP) is not None
    assert groups.find_or_create(GATEWAY_GROUP) is groups.find(GATEWAY_GROUP)


def test_naming_a_group_creates_it_only_where_allowed_and_the_name_is_legal():
    groups = table()
    assert groups.find_or_create("g").retry_max_times == 16
    assert groups.find_or_create("not legal") is None
    closed = table(auto_create=False)
    assert closed.find_or_create("g") is None
    assert closed.find_or_create("CID_RMQ_SYS_x") is not None


def test_every_change_raises_the_version_and_is_reported():
    changed = []
    groups = table(changed=changed)
    groups.find_or_create("g")
    groups.set_consume_enable("g", enable=False)
    groups.set_consume_enable("g", enable=False)
    assert groups.delete("g")
    assert not groups.delete("g")
    assert changed == ["g"] * 3
    assert groups.version.bumps == 3


def test_the_gateways_group_cannot_be_replaced():
    with pytest.raises(IllegalName):
        table().put(SubscriptionGroupConfig(group_name=GATEWAY_GROUP))


async def test_names_of_the_system_cannot_be_created(side):
    body = fastjson.dumps({"groupName": "GANTRY_SYS_READERS"})
    assert (await side.ask(200, body=body)).code == ResponseCode.INVALID_PARAMETER
    listed = fastjson.dumps({"groupConfigList": [{"groupName": "good"}, {"groupName": "GANTRY_SYS_READERS"}]})
    assert (await side.ask(225, body=listed)).code == ResponseCode.INVALID_PARAMETER
    groups = side.consuming.groups
    assert groups.find_or_create("GANTRY_SYS_READERS") is None
    assert set(groups.names()) == set(PRESET_GROUPS)


async def test_a_group_is_created_saved_and_returned(side):
    body = b'{"groupName":"g","consumeEnable":false,"retryMaxTimes":3,"brokerId":0}'
    assert (await side.ask(200, body=body)).code == ResponseCode.SUCCESS
    group = decode_body((await side.ask(352, {"group": "g"})).body, SubscriptionGroupConfig)
    assert (group.consume_enable, group.retry_max_times) == (False, 3)
    assert side.records.asked == 1


async def test_several_groups_are_made_at_once_or_not_at_all(side):
    good, bad = b'{"groupName":"a"}', b'{"groupName":"not legal"}'
    reply = await side.ask(225, body=b'{"groupConfigList":[%s,%s]}' % (good, bad))
    assert reply.code == ResponseCode.INVALID_PARAMETER
    assert side.consuming.groups.find("a") is None
    assert (await side.ask(225, body=b'{"groupConfigList":[%s]}' % good)).code == ResponseCode.SUCCESS
    assert side.consuming.groups.find("a") is not None


async def test_all_groups_are_listed_at_once_or_in_pages(side):
    await side.ask(225, body=b'{"groupConfigList":[{"groupName":"a"},{"groupName":"b"}]}')
    reply = await side.ask(201)
    everything = decode_body(reply.body, SubscriptionGroupWrapper)
    assert set(everything.subscription_group_table) == {*PRESET_GROUPS, "a", "b"}
    assert reply.ext["totalGroupNum"] == str(len(PRESET_GROUPS) + 2)
    paged = await side.ask(201, {"groupSeq": str(len(PRESET_GROUPS)), "maxGroupNum": "5"})
    assert list(decode_body(paged.body, SubscriptionGroupWrapper).subscription_group_table) == ["a", "b"]


@pytest.mark.parametrize(("field", "kept"), [("cleanOffset", False), ("removeOffset", False), (None, True)])
async def test_a_deleted_group_loses_its_offsets_if_requested(side, field, kept):
    side.consuming.groups.find_or_create("g")
    side.consuming.offsets.commit("g", "orders", 0, 5)
    fields = {"groupName": "g", **({field: "true"} if field else {})}
    assert (await side.ask(207, fields)).code == ResponseCode.SUCCESS
    assert side.consuming.groups.find("g") is None
    assert (side.consuming.offsets.find("g", "orders", 0) is not None) is kept
    assert (await side.ask(352, {"group": "g"})).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


async def test_offsets_of_a_deleted_group_are_gone_after_a_crash_too(side, tmp_path):
    side.consuming.groups.find_or_create("g")
    fields = {"consumerGroup": "g", "topic": "orders", "queueId": "0", "commitOffset": "5"}
    assert (await side.ask(15, fields)).code == ResponseCode.SUCCESS
    assert (await side.ask(207, {"groupName": "g", "cleanOffset": "true"})).code == ResponseCode.SUCCESS
    again = ReadingSide(tmp_path, after=side)  # the process ended without a stop
    assert again.consuming.offsets.find("g", "orders", 0) is None
    await again.consuming.stop()


async def test_a_deletion_whose_offsets_cannot_be_stored_is_reported(side):
    side.consuming.groups.find_or_create("g")
    side.consuming.offsets.commit("g", "orders", 0, 5)
    side.store.refusal = RefusedRequest(ResponseCode.SERVICE_NOT_AVAILABLE, "the disk is full")
    reply = await side.ask(207, {"groupName": "g", "cleanOffset": "true"})
    assert (reply.code, "could not be saved" in reply.remark) == (ResponseCode.SYSTEM_ERROR, True)


async def test_a_preset_group_cannot_be_deleted(side):
    assert (await side.ask(207, {"groupName": "TOOLS_CONSUMER"})).code == ResponseCode.INVALID_PARAMETER


async def test_a_change_that_cannot_be_saved_is_reported(side):
    side.records.refusal = disk_full()
    reply = await side.ask(200, body=b'{"groupName":"g"}')
    assert (reply.code, "could not be saved" in reply.remark) == (ResponseCode.SYSTEM_ERROR, True)
