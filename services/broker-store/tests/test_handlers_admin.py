"""25, 26, 28, 305: settings over the wire, runtime info, system topics."""

import pytest
from reading_side import ReadingSide, pull_fields

from gantry_wire.bodies import KVTable, TopicList, decode_body
from gantry_wire.codes import ResponseCode
from gantry_wire.config_text import parse_config_text

pytestmark = pytest.mark.anyio

CLUSTER_LIST_KEYS = [
    "brokerActive",
    "brokerVersionDesc",
    "putTps",
    "getTransferredTps",
    "getTransferedTps",
    "sendThreadPoolQueueSize",
    "pullThreadPoolQueueSize",
    "ackThreadPoolQueueSize",
    "sendThreadPoolQueueHeadWaitTimeMills",
    "pullThreadPoolQueueHeadWaitTimeMills",
    "ackThreadPoolQueueHeadWaitTimeMills",
    "pageCacheLockTimeMills",
    "earliestMessageTimeStamp",
    "commitLogDiskRatio",
    "timerReadBehind",
    "timerOffsetBehind",
    "timerCongestNum",
    "timerEnqueueTps",
    "timerDequeueTps",
    "msgPutTotalYesterdayMorning",
    "msgPutTotalTodayMorning",
    "msgPutTotalTodayNow",
    "msgGetTotalYesterdayMorning",
    "msgGetTotalTodayMorning",
    "msgGetTotalTodayNow",
    "bootTimestamp",
    "runtime",
    "putMessageDistributeTime",
    "putLatency99",
    "putLatency999",
    "commitLogMinOffset",
    "commitLogMaxOffset",
    "dispatchBehindBytes",
    "litePullThreadPoolQueueCapacity",
    "queryThreadPoolQueueSize",
    "EndTransactionQueueSize",
    "commitLogDirCapacity",
    "getFoundTps",
]


@pytest.fixture
async def side(tmp_path):
    side = ReadingSide(tmp_path)
    yield side
    await side.consuming.stop()


async def test_runtime_info_has_every_key_that_cluster_list_reads(side):
    side.put(b"m")
    await side.ask(11, pull_fields(0))
    side.consuming.figures.sample(100, 0)
    table = decode_body((await side.ask(28)).body, KVTable).table
    assert [key for key in CLUSTER_LIST_KEYS if key not in table] == []
    assert table["msgGetTotalTodayNow"] == "1"
    assert len(table["putTps"].split(" ")) == 3
    assert float(table["commitLogDiskRatio"]) == 0.4


async def test_settings_are_told_and_changed_while_it_runs(side):
    assert (
        await side.ask(25, body=b"longPollingEnable=false\nbrokerPermission=4\n")
    ).code == ResponseCode.SUCCESS
    assert (side.settings.long_polling_enable, side.settings.broker_permission) == (False, 4)
    reply = await side.ask(26)
    assert parse_config_text(reply.body)["longPollingEnable"] == "false"
    assert b'"counter":2' in reply.ext["version"].encode()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"rocketmqHome=/x\n", ResponseCode.NO_PERMISSION),
        (b"listenPort=1\n", ResponseCode.NO_PERMISSION),
        (b"brokerPermission=9\n", ResponseCode.INVALID_PARAMETER),
        (b"longPollingEnable=perhaps\n", ResponseCode.INVALID_PARAMETER),
        (b"no line\n", ResponseCode.SYSTEM_ERROR),
    ],
)
async def test_a_setting_that_cannot_change_is_refused_with_everything_beside_it(side, text, code):
    reply = await side.ask(25, body=b"shortPollingTimeMills=5\n" + text)
    assert reply.code == code
    if code == ResponseCode.NO_PERMISSION:
        assert side.settings.short_polling_ms == 1000


async def test_every_setting_of_the_reading_side_takes_effect(side):
    changes = {
        "shortPollingTimeMills": "5",
        "disableConsumeIfConsumerReadSlowly": "true",
        "consumerFallbehindThreshold": "1048576",
        "maxTransferBytesOnMessageInMemory": "2048",
        "autoCreateSubscriptionGroup": "false",
    }
    side.config.update(changes)
    settings = side.settings
    assert (settings.short_polling_ms, settings.protect_broker, settings.fallbehind_bytes_max) == (
        5,
        True,
        1 << 20,
    )
    assert settings.limits.memory.size == 2048
    assert side.consuming.groups.find_or_create("new") is None


async def test_system_topics_are_listed(side):
    assert decode_body((await side.ask(305)).body, TopicList).topic_list == ["TBW102"]
