import msgspec
import pytest
from leasing_side import LeasingSide
from reading_side import ReadingSide

from gantry_wire.bodies.cluster import SubscriptionGroupConfig
from gantry_wire.bodies.json_body import decode_body
from gantry_wire.codes import ResponseCode

pytestmark = pytest.mark.anyio


@pytest.fixture
async def side(tmp_path):
    side = ReadingSide(tmp_path)
    yield side
    await side.consuming.stop()


async def put(side: ReadingSide, **fields: object):
    return await side.ask(200, body=msgspec.json.encode({"groupName": "g", **fields}))


async def attributes(side: ReadingSide) -> dict[str, str]:
    reply = await side.ask(352, {"group": "g"})
    return decode_body(reply.body, SubscriptionGroupConfig).attributes


async def test_a_policy_is_set_kept_by_other_changes_and_removed(side):
    assert (await put(side, attributes={"+gantry.retryPolicy": "list:1s,5s"}, retryMaxTimes=5)).code == 0
    assert (await put(side, retryMaxTimes=7)).code == 0
    assert await attributes(side) == {"gantry.retryPolicy": "list:1s,5s"}
    assert (await put(side, attributes={"-gantry.retryPolicy": ""})).code == 0
    assert await attributes(side) == {}


async def test_a_policy_that_cannot_be_read_is_refused_and_nothing_changes(side):
    await put(side, attributes={"gantry.retryPolicy": "list:1s"})
    reply = await put(side, attributes={"gantry.retryPolicy": "list:soon"}, retryMaxTimes=1)
    assert reply.code == ResponseCode.INVALID_PARAMETER
    assert "'soon' is no duration" in reply.remark
    assert await attributes(side) == {"gantry.retryPolicy": "list:1s"}
    assert side.consuming.groups.find("g").retry_max_times == 16


async def test_a_policy_survives_a_restart():
    side = LeasingSide()
    side.set_group("g", attributes={"gantry.retryPolicy": "exponential:initial=1s"})
    side.flush()
    group = LeasingSide(side.files.killed(), side.wall_s + 1).consuming.groups.find("g")
    assert group is not None
    assert group.attributes == {"gantry.retryPolicy": "exponential:initial=1s"}
