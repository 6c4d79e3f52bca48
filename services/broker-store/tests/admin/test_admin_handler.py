"""Requests 28 and 305: runtime info, system topics."""

import pytest
from reading_side import ReadingSide, pull_fields

from gantry_wire.bodies.cluster import KVTable, TopicList
from gantry_wire.bodies.json_body import decode_body

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
    side.consuming.metrics.sample(100, 0)
    table = decode_body((await side.ask(28)).body, KVTable).table
    assert [key for key in CLUSTER_LIST_KEYS if key not in table] == []
    assert table["msgGetTotalTodayNow"] == "1"
    assert len(table["putTps"].split(" ")) == 3
    assert float(table["commitLogDiskRatio"]) == 0.4


async def test_system_topics_are_listed(side):
    assert decode_body((await side.ask(305)).body, TopicList).topic_list == ["TBW102"]
