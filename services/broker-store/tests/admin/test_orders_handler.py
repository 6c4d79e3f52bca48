"""Requests 306, 316, 329, 353, 401 and 907: commands of tools to the whole broker, and replication state."""

import pytest
from heartbeat_bytes import HEARTBEAT
from reading_side import ReadingSide, pull_fields

from broker_store.admin.cleaning_handler import CleaningHandlers
from broker_store.admin.replication_handler import ReplicationHandlers
from broker_store.commit.appends import disk_full
from broker_store.groups.forbidden_handler import ForbiddenHandlers
from broker_store.requests.deferred_replies import DeferredReplies
from gantry_wire.bodies.admin import GroupForbidden, HARuntimeInfo
from gantry_wire.bodies.json_body import decode_body
from gantry_wire.codes import ResponseCode

pytestmark = pytest.mark.anyio


class MemoryCleaner:
    """Counts its calls."""

    def __init__(self):
        self.done = []

    async def delete_expired(self):
        self.done.append("expired")
        return 2

    async def forget_deleted(self):
        self.done.append("deleted")


@pytest.fixture
async def side(tmp_path):
    side = ReadingSide(tmp_path)
    later = DeferredReplies(side.classes["adminBroker"], side.now_ms)
    side.cleaner = MemoryCleaner()
    consuming = side.consuming
    for part in (
        CleaningHandlers(side.cleaner, later),
        ForbiddenHandlers(consuming.groups, consuming.group_records),
        ReplicationHandlers(lambda: 4711, None, "cluster", "broker-a"),
    ):
        side.commands.update(part.commands())
    yield side
    await later.close()
    await consuming.stop()


async def test_cleaning_is_answered_when_it_is_done(side):
    for code in (306, 316, 329):
        assert (await side.ask(code)).code == ResponseCode.SUCCESS
    assert side.cleaner.done == ["deleted", "expired"]


async def test_a_broker_reports_that_it_has_no_slave(side):
    body = decode_body((await side.ask(907)).body, HARuntimeInfo)
    assert (body.is_master, body.master_commit_log_max_offset, body.in_sync_slave_nums) == (True, 4711, 0)
    assert body.ha_connection_info == []


async def test_a_topic_is_forbidden_to_a_group_and_allowed_again_and_that_is_saved(side):
    await side.ask(34, body=HEARTBEAT)
    pull = pull_fields(sysFlag=0)
    fields = {"group": "readers", "topic": "orders"}
    asked = decode_body((await side.ask(353, fields)).body, GroupForbidden)
    assert (asked.group, asked.topic, asked.readable) == ("readers", "orders", True)
    taken = decode_body((await side.ask(353, {**fields, "readable": "false"})).body, GroupForbidden)
    assert taken.readable is False
    reply = await side.ask(11, pull)
    assert reply.code == ResponseCode.NO_PERMISSION
    assert reply.remark == "the consumer group[readers] is forbidden for topic[orders]"
    assert side.consuming.groups.wrapper().forbidden_table == {"readers": {"orders": 4}}
    side.records.refusal = disk_full()
    refused = await side.ask(353, fields)
    assert (refused.code, "the disk of this broker is full" in refused.remark) == (
        ResponseCode.SYSTEM_ERROR,
        True,
    )
    side.records.refusal = None
    await side.ask(353, {**fields, "readable": "true"})
    assert (await side.ask(11, pull)).code == ResponseCode.PULL_NOT_FOUND
    assert side.consuming.groups.forbidden == {}
