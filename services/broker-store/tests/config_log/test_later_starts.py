"""What a second and a third start make of files and records that do not fit together: deletions, edits, unreadable tables, refused settings."""

import asyncio
import errno
from unittest.mock import Mock

import pytest
from config_side import CONFIG, ConfigSide, topic_fields, write
from sending_side import ScriptedPeer

from broker_store.config import broker_config
from broker_store.config.broker_config import Bounds
from broker_store.config_log import table_records
from broker_store.config_log.topics_table import KeptTopics
from broker_store.groups.groups_handler import GROUP_BYTES_MAX
from broker_store.log.files.simulated_files import Fault
from gantry_wire.bodies import fastjson
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest

pytestmark = pytest.mark.anyio
SETTINGS = {"brokerPermission": "4", "longPollingEnable": "false"}


def topics_of(disk, side, later_s):
    return ConfigSide(disk, side.wall_s + later_s).config_state()["topics"]


async def test_a_topic_whose_deletion_lacks_its_second_record_stays_deleted_after_a_stop():
    side = ConfigSide()
    await side.make_topic("orders", 3)
    side.send(ScriptedPeer(), body=b"one")
    side.flush()
    await side.export()
    created = side.topics.version.value
    side.ask(ScriptedPeer(), 215, {"topic": "orders"})
    side.end_turn()
    found = list[bool]()
    for left in side.files.crash_states(60):
        first = ConfigSide(left, side.wall_s + 1)
        before = first.config_state()["topics"]
        found.append("orders" in before)
        assert before or first.topics.version.value != created
        await first.stop()
        assert topics_of(left, side, 2) == before
    assert any(found)
    assert not all(found)


async def test_an_edit_after_a_kill_does_not_count_at_the_start_after_the_next_either():
    side = ConfigSide()
    await side.make_topic("orders", 3)
    await side.export()
    disk = side.files.killed()
    table = fastjson.loads(disk.read_bytes(f"{CONFIG}/topics.json"))
    table["topicConfigTable"]["orders"]["writeQueueNums"] = 9
    write(disk, "topics.json", fastjson.dumps(table))
    first = ConfigSide(disk, side.wall_s + 1)
    await first.stop()
    assert topics_of(disk, side, 2) == {"orders": 3}


@pytest.mark.parametrize(
    "content",
    [
        b"[]",
        b'"x"',
        b'{"topicConfigTable":{"orders":{"perm":"x"}}}',
        b'{"gantryNumber":1,"topicConfigTable":{"orders":{"topicName":"orders","perm":"x"}}}',
    ],
)
async def test_json_that_is_no_table_of_topics_deletes_none(content):
    side = ConfigSide()
    await side.make_topic("orders", 3)
    await side.stop()
    write(side.files, "topics.json", content)
    again = ConfigSide(side.files, side.wall_s + 1)
    assert again.config_state()["topics"] == {"orders": 3}
    await again.export()
    assert again.file("topics.json")["topicConfigTable"]["orders"]["writeQueueNums"] == 3


async def test_a_deletion_is_not_answered_while_a_file_that_counts_has_the_topic():
    side = ConfigSide()
    await side.make_topic("orders", 3)
    await side.stop()
    table = fastjson.loads(side.files.read_bytes(f"{CONFIG}/topics.json"))
    del table["gantryNumber"]  # as RocketMQ leaves it: it counts at every start until it is written again
    write(side.files, "topics.json", fastjson.dumps(table))
    side.files.faults += [Fault("pwrite", errno.ENOSPC, "config/topics") for _ in range(50)]
    first = ConfigSide(side.files, side.wall_s + 1)
    answer = await first.delete_topic("orders")
    await first._flushing(first.sending.checkpoints.take())
    left = first.files.killed()
    assert (answer.code == ResponseCode.SUCCESS) is (topics_of(left, side, 2) == {})


async def test_a_setting_that_one_start_refuses_is_there_for_the_next(monkeypatch):
    side = ConfigSide()
    await side.set("brokerPermission=4\nlongPollingEnable=false\n")
    await side.stop()
    bounds = broker_config.NUMBERS
    monkeypatch.setattr(broker_config, "NUMBERS", {**bounds, "brokerPermission": Bounds(5, 6)})
    other = ConfigSide(side.files, side.wall_s + 1)
    assert other.config_state()["settings"] == {"longPollingEnable": "false"}
    await other.stop()
    monkeypatch.undo()
    third = ConfigSide(side.files, side.wall_s + 2)
    assert third.config_state()["settings"] == SETTINGS
    assert third.log.written_end == side.log.written_end


async def test_deletions_do_not_grow_without_bound():
    side = ConfigSide()
    for name in range(30):
        await side.make_topic(f"auto{name}", 1)
        await side.delete_topic(f"auto{name}")
    await side._flushing(side.sending._take_checkpoint())
    assert len(side.store.states.config) == 1  # the newest change: it holds the DataVersion
    await side._flushing(side.sending.checkpoints.take())
    for left in [side.files.killed(), *side.files.crash_states(12)]:
        again = ConfigSide(left, side.wall_s + 1)
        assert again.config_state()["topics"] == {}
        assert again.topics.version.value == side.topics.version.value


async def test_a_group_too_large_for_a_record_is_refused_and_stops_no_other():
    side = ConfigSide()
    large = {"groupName": "large", "attributes": {"+note": "x" * GROUP_BYTES_MAX}}
    assert (await side.asked_for(200, body=fastjson.dumps(large))).code == ResponseCode.INVALID_PARAMETER
    assert (await side.make_group("readers", 5)).code == ResponseCode.SUCCESS
    groups = ConfigSide(side.files.killed(), side.wall_s + 1).config_state()["groups"]
    assert ("large" in groups, groups["readers"]) == (False, 5)


@pytest.fixture
def moving_by_one(monkeypatch):
    monkeypatch.setattr(table_records, "MOVED_AT_ONCE", 1)


async def test_a_topic_deleted_while_it_moves_keeps_no_answer_and_no_file_waiting(moving_by_one):
    side = ConfigSide()
    write(side.files, "topics.json", fastjson.dumps({"topicConfigTable": {
        name: {"topicName": name, "readQueueNums": 2, "writeQueueNums": 2, "perm": 6} for name in "abc"
    }}))  # fmt: skip
    side.log.close()
    first = ConfigSide(side.files, side.wall_s + 1)
    maker, remover = ScriptedPeer(), ScriptedPeer()
    first.ask(maker, 17, topic_fields("new", 1))
    first.ask(remover, 215, {"topic": "c"})  # waits for its turn: it is in no record
    for _ in range(500):
        first.flush()
        await asyncio.sleep(0.001)
    assert [answer.code for answer in maker.answers + remover.answers] == [0, 0]
    assert first.file("topics.json")["gantryNumber"] == first.topics.version.value.counter
    assert first.config_state()["topics"] == {"a": 2, "b": 2, "new": 1}
    assert topics_of(first.files.killed(), side, 2) == {"a": 2, "b": 2, "new": 1}


async def test_a_large_table_moves_in_parts_that_are_not_compared_again(moving_by_one, monkeypatch):
    side = ConfigSide()
    names = [f"t{number}" for number in range(60)]
    write(side.files, "topics.json", fastjson.dumps({"topicConfigTable": {
        name: {"topicName": name, "readQueueNums": 2, "writeQueueNums": 2, "perm": 6} for name in names
    }}))  # fmt: skip
    side.log.close()
    asked = list[str]()
    value = KeptTopics.value
    monkeypatch.setattr(KeptTopics, "value", lambda table, key: asked.append(key.name) or value(table, key))
    first = ConfigSide(side.files, side.wall_s + 1)
    await first.export()
    assert len(first.store.states.config) == len(names)
    assert len(asked) < 5 * len(names)


async def test_a_deletion_whose_second_record_is_refused_leaves_no_file_with_the_topic(monkeypatch):
    monkeypatch.setattr(table_records, "RETRY_SECONDS", 0.01)
    side = ConfigSide()
    await side.make_topic("orders", 3)
    await side.export()
    log, full = side.sending.config_log, RefusedRequest(ResponseCode.SYSTEM_ERROR, "no space")
    with monkeypatch.context() as refused:
        refused.setattr(log, "enqueue", Mock(side_effect=full))
        side.ask(ScriptedPeer(), 215, {"topic": "orders"})
        side.flush()
        await asyncio.sleep(0)
    await asyncio.sleep(0.05)
    await side.stop()
    assert "orders" not in side.file("topics.json")["topicConfigTable"]
    assert topics_of(side.files, side, 1) == {}
