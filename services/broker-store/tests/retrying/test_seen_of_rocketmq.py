"""What a RocketMQ 5.3.3 broker stored for the same requests: properties one by one, and queue units byte for byte.

Intended differences: instants keep their milliseconds, and properties that begin with `__GANTRY_`.
"""

import pytest
from consumers_side import Consumers
from sending_side import START_S, ScriptedPeer

from gantry_wire.codes import RequestCode
from gantry_wire.headers.messages import RecallHeader, SendReplyHeader

pytestmark = pytest.mark.anyio
NOW = int(START_S * 1000)
ADDED = {"CLUSTER": "DefaultCluster", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
SENT_BACK = {
    **ADDED, "KEYS": "k1", "RETRY_TOPIC": "orders", "TAGS": "a", "UNIQ_KEY": "U0", "WAIT": "false",
}  # fmt: skip


@pytest.fixture
async def consumers():
    consumers = Consumers()
    consumers.side.topics.ensure("orders", 4)
    return consumers


def send(consumers: Consumers, topic: str = "orders", **properties: str) -> ScriptedPeer:
    peer = ScriptedPeer()
    consumers.side.send(peer, topic, queue_id=1 if topic == "orders" else 0, flag=7, properties=properties)
    consumers.side.flush()
    return peer


def newest(consumers: Consumers, topic: str, queue_id: int) -> dict[str, str]:
    """Return the properties of a queue's newest record, without Gantry's."""
    properties = consumers.side.records(topic, queue_id)[-1].property_map()
    return {name: value for name, value in properties.items() if not name.startswith("__GANTRY_")}


@pytest.mark.parametrize(
    ("sent", "queue_id", "stored"),
    [
        (
            {"UNIQ_KEY": "U1", "TAGS": "a", "KEYS": "k1", "DELAY": "3", "WAIT": "true"},
            2,
            {"DELAY": "3", "KEYS": "k1", "TAGS": "a", "UNIQ_KEY": "U1", "WAIT": "true"},
        ),
        ({"UNIQ_KEY": "U2", "DELAY": "19"}, 17, {"DELAY": "18", "UNIQ_KEY": "U2"}),
        ({"UNIQ_KEY": "U6", "TIMER_DELAY_MS": "30000", "DELAY": "4"}, 3, {"DELAY": "4", "UNIQ_KEY": "U6"}),
    ],
)
async def test_levels(consumers, sent, queue_id, stored):
    send(consumers, **sent)
    place = {"REAL_QID": "1", "REAL_TOPIC": "orders"}
    assert newest(consumers, "SCHEDULE_TOPIC_XXXX", queue_id) == {**ADDED, **stored, **place}


async def test_an_instant(consumers):
    peer = send(consumers, UNIQ_KEY="U3", TIMER_DELAY_MS="30000")
    assert newest(consumers, "rmq_sys_wheel_timer", 0) == {
        **ADDED, "REAL_QID": "1", "REAL_TOPIC": "orders", "TIMER_DELAY_MS": "30000", "UNIQ_KEY": "U3",
        "TIMER_OUT_MS": str(NOW + 30_000),
    }  # fmt: skip
    assert peer.answers[0].read(SendReplyHeader).queue_id == 1


async def test_a_recall(consumers):
    handle = (
        send(consumers, UNIQ_KEY="U8", TIMER_DELAY_MS="60000").answers[0].read(SendReplyHeader).recall_handle
    )
    header = RecallHeader(topic="orders", recall_handle=handle, producer_group="pg")
    consumers.side.ask(consumers.peer, RequestCode.RECALL_MESSAGE, header)
    consumers.side.flush()
    assert newest(consumers, "rmq_sys_wheel_timer", 0) == {
        "BORN_TIMESTAMP": str(NOW), "PGROUP": "pg", "REAL_QID": "0", "REAL_TOPIC": "orders", "TAGS": "_RECALL_TAG_",
        "TIMER_DELIVER_MS": str(NOW + 60_000), "TIMER_DEL_UNIQKEY": "orders+U8",
        "TIMER_OUT_MS": str(NOW + 60_000), "UNIQ_KEY": "U8",
    }  # fmt: skip
    record = consumers.side.records("rmq_sys_wheel_timer")[-1]
    assert (record.body, record.flag, record.sys_flag) == (b"0", 0, 0)


async def test_sent_back_dead_and_sent_back_again(consumers):
    send(consumers, UNIQ_KEY="U0", TAGS="a", KEYS="k1")
    original = consumers.side.records("orders", 1)[0]
    sent_back = {**SENT_BACK, "ORIGIN_MESSAGE_ID": original.message_id}
    waiting = {"REAL_QID": "0", "REAL_TOPIC": "%RETRY%g"}
    await consumers.back(original.position)
    assert newest(consumers, "SCHEDULE_TOPIC_XXXX", 2) == {**sent_back, **waiting, "DELAY": "3"}
    await consumers.back(original.position, level=5)
    assert newest(consumers, "SCHEDULE_TOPIC_XXXX", 4) == {**sent_back, **waiting, "DELAY": "5"}
    await consumers.back(original.position, level=-1)
    assert newest(consumers, "%DLQ%g", 0) == {**sent_back, "DELAY": "0"}
    dead = consumers.side.records("%DLQ%g")[0]
    assert (dead.reconsume_times, dead.flag) == (1, 7)
    await consumers.back(dead.position)
    assert newest(consumers, "SCHEDULE_TOPIC_XXXX", 3) == {**sent_back, **waiting, "DELAY": "4"}
    again = consumers.side.records("SCHEDULE_TOPIC_XXXX", 3)[0]
    assert again.reconsume_times == 2
    assert "__GANTRY_DLQ_REASON" not in again.property_map()


async def test_a_producer_s_retry_that_is_used_up(consumers):
    peer = ScriptedPeer()
    properties = {"UNIQ_KEY": "U10", "DELAY": "3"}
    consumers.side.send(peer, "%RETRY%g", properties=properties, reconsume_times=17, max_reconsume_times=16)
    consumers.side.flush()
    assert newest(consumers, "%DLQ%g", 0) == {**ADDED, "DELAY": "-1", "UNIQ_KEY": "U10"}
    assert consumers.side.records("%DLQ%g")[0].reconsume_times == 17


async def test_the_unit_of_a_level_byte_by_byte(consumers):
    send(consumers, UNIQ_KEY="U1", DELAY="1", TAGS="a")
    record = consumers.side.records("SCHEDULE_TOPIC_XXXX", 0)[0]
    unit = consumers.side.queues.find("SCHEDULE_TOPIC_XXXX", 0).read(0, 1)
    expected = f"{record.position:016x}{record.size:08x}{NOW + 1000:016x}"
    assert unit.hex() == expected
    assert expected.endswith("0000018bcfe56be8")
