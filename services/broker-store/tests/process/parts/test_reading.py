"""The reading side as one part: what it saves, samples and watches by itself."""

import asyncio

import msgspec
import pytest
from memory_store import MemoryStore
from reading_side import ReadingSide, pull_fields

from broker_store.groups.offset_rows import Row
from broker_store.groups.offset_samples import QUEUES_PER_SAMPLE, samples
from broker_store.process.parts import reading as consuming_module
from gantry_chassis.start_refusal import StartRefused

pytestmark = pytest.mark.anyio


@pytest.fixture
async def side(tmp_path):
    side = ReadingSide(tmp_path)
    yield side
    await side.consuming.stop()


async def test_offsets_survive_a_stop(tmp_path):
    side = ReadingSide(tmp_path)
    side.put(b"m")
    await side.ask(11, pull_fields(0))
    side.consuming.offsets.commit("readers", "orders", 0, 1)
    await side.consuming.stop()
    again = ReadingSide(tmp_path)
    assert again.consuming.offsets.find("readers", "orders", 0) == 1
    await again.consuming.stop()


async def test_offsets_are_saved_every_few_seconds_without_a_stop(side, tmp_path, monkeypatch):
    monkeypatch.setattr(consuming_module, "SAVE_OFFSETS_SECONDS", 0.01)
    monkeypatch.setattr(consuming_module, "COPY_OFFSETS_SECONDS", 0.02)
    side.consuming.offsets.commit("g", "orders", 0, 3)
    names = ("offsets", "copy of offsets")
    loops = [asyncio.ensure_future(side.consuming.loops()[name]()) for name in names]
    saved = tmp_path / "config" / "consumerOffset.json"
    async with asyncio.timeout(60):
        while not (saved.exists() and b'"orders@g":{0:3}' in saved.read_bytes()):
            await asyncio.sleep(0.005)
    for loop in loops:
        loop.cancel()


async def test_a_group_that_moved_is_sampled_once_a_second_and_an_idle_one_is_not(side, monkeypatch):
    for _ in range(5):
        side.put(b"m")
    side.consuming.offsets.commit("g", "orders", 0, 3)
    await side.consuming.keeper.save()
    side.consuming._sample_offsets()
    side.consuming._sample_offsets()
    ((topic, queue_id, body, _, keys),) = side.store.internal
    assert (topic, queue_id, keys) == ("GANTRY_SYS_OFFSETS", 0, "g")
    assert msgspec.json.decode(body) == {
        "group": "g",
        "topic": "orders",
        "sampledAt": side.clock_ms,
        "queues": [[0, 3, 5]],
    }


async def test_loaded_offsets_are_not_sampled_as_if_they_had_moved(tmp_path):
    side = ReadingSide(tmp_path)
    side.consuming.offsets.commit("g", "orders", 0, 3)
    await side.consuming.stop()
    again = ReadingSide(tmp_path)
    await again.consuming.keeper.save()
    assert again.committed.find("g", "orders", 0) == 3
    again.consuming._sample_offsets()
    assert again.store.internal == []
    await again.consuming.stop()


def test_a_wide_topic_is_sampled_in_parts_and_system_groups_never():
    wide = Row("t", "g", dict.fromkeys(range(QUEUES_PER_SAMPLE + 1), 1))
    system = Row("t", "CID_RMQ_SYS_TRANS", {0: 1})
    parts = [
        msgspec.json.decode(sample.body)["queues"] for sample in samples([wide, system], MemoryStore(), 1)
    ]
    assert [len(part) for part in parts] == [QUEUES_PER_SAMPLE, 1]


async def test_a_group_too_far_behind_is_paused_only_where_the_broker_is_to_be_protected(side):
    side.put(b"m")
    await side.ask(11, pull_fields(0))
    side.settings.fallbehind_bytes_max = 1
    side.consuming._expire()
    assert side.consuming.groups.find("readers").consume_enable
    side.settings.protect_broker = True
    side.consuming._expire()
    assert not side.consuming.groups.find("readers").consume_enable
    assert (await side.ask(11, pull_fields(0))).code == 16


async def test_pulls_for_no_group_pause_no_group_however_old_what_they_read_is(side):
    side.put(b"m")
    side.settings.protect_broker, side.settings.fallbehind_bytes_max = True, 1
    await side.ask(11, pull_fields(0, gantryBrowse="true"))
    side.consuming._expire()
    assert side.consuming.groups.find_or_create("readers").consume_enable


async def test_a_deleted_topic_leaves_no_offsets(side):
    side.consuming.offsets.commit("g", "orders", 0, 3)
    side.consuming.topic_deleted("orders")
    assert side.consuming.offsets.find("g", "orders", 0) is None


async def test_lag_is_shown_per_group_and_queue(side):
    for _ in range(5):
        side.put(b"m")
    side.consuming.offsets.commit("g", "orders", 0, 3)
    side.consuming.offsets.commit("CID_RMQ_SYS_TRANS", "orders", 0, 0)
    text = (await side.metrics.text()).decode()
    assert "CID_RMQ_SYS_TRANS" not in text, "it stays at its beginning on purpose: that is no lag"
    assert 'gantry_store_group_lag_messages{group="g",queue="0",topic="orders"} 2.0' in text
    assert "gantry_store_held_pulls 0.0" in text


async def test_a_group_file_of_another_format_is_refused_by_name(tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "subscriptionGroup.json").write_bytes(b'{"subscriptionGroupTable":[1]}')
    with pytest.raises(StartRefused, match=r"subscriptionGroup\.json"):
        ReadingSide(tmp_path)


async def test_rocketmqs_own_files_are_read(tmp_path):
    config = tmp_path / "config"
    config.mkdir()
    (config / "subscriptionGroup.json").write_bytes(
        b'{"dataVersion":{"counter":4,"stateVersion":0,"timestamp":5},"forbiddenTable":{},"subscriptionGroupTable":'
        b'{"g":{"attributes":{},"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":true,"consumeFromMinEnable":'
        b'true,"consumeMessageOrderly":false,"consumeTimeoutMinute":15,"groupName":"g","groupRetryPolicy":{"type":'
        b'"CUSTOMIZED"},"groupSysFlag":0,"notifyConsumerIdsChangedEnable":true,"retryMaxTimes":9,"retryQueueNums":1,'
        b'"whichBrokerWhenConsumeSlowly":1}}}'
    )
    (config / "consumerOffset.json").write_bytes(
        b'{\n\t"dataVersion":{"counter":1,"stateVersion":0,"timestamp":5},\n\t"offsetTable":{"orders@g":{0:12,1:9}\n\t}\n}'
    )
    side = ReadingSide(tmp_path)
    assert side.consuming.groups.find("g").retry_max_times == 9
    assert side.consuming.groups.version.value.counter == 4
    assert dict(side.consuming.offsets.of("g", "orders")) == {0: 12, 1: 9}
    await side.consuming.stop()
