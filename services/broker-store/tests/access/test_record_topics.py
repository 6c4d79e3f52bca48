"""The topic of a record that a request identifies is that of the record, whatever the request says."""

import pytest
from access_side import AccessSide
from sending_side import HOST, ScriptedPeer

from broker_store.access.record_topics import RecordTopics
from broker_store.transactions.producer_checks import Relays
from gantry_access.rights.asked import Asked
from gantry_wire.messages.ids import offset_message_id
from gantry_wire.names import HALF_TOPIC, SCHEDULE_TOPIC

pytestmark = pytest.mark.anyio
FIELDS = {33: "offset", 36: "offset", 37: "commitLogOffset"}
IDS = (309, 323)


def topic_of(side: AccessSide, code: int, position: int | str) -> str | None:
    if code in IDS:
        fields = {"msgId": position if isinstance(position, str) else offset_message_id(HOST, position)}
    else:
        fields = {FIELDS[code]: str(position)}
    return RecordTopics(side.log, Relays().topic_of).topic_of(
        code, Asked({"topic": "mine", **fields}, b"", "c")
    )


def stored(side: AccessSide, topic: str, **more) -> int:
    side.send(ScriptedPeer(), "orders", **more)
    side.flush()
    return side.records(topic)[-1].position


@pytest.mark.parametrize("code", [*FIELDS, *IDS])
async def test_the_topic_is_that_of_the_record_and_of_waiting_ones_where_they_go(code):
    side = AccessSide()
    plain = {"UNIQ_KEY": "U1", "REAL_TOPIC": "forged"}
    assert topic_of(side, code, stored(side, "orders", properties=plain)) == "orders"
    half = {"UNIQ_KEY": "U2", "TRAN_MSG": "true", "PGROUP": "pg", "REAL_TOPIC": "forged"}
    assert topic_of(side, code, stored(side, HALF_TOPIC, properties=half, sys_flag=4)) == "orders"
    delayed = {"UNIQ_KEY": "U3", "DELAY": "1", "REAL_TOPIC": "forged"}
    assert topic_of(side, code, stored(side, SCHEDULE_TOPIC, properties=delayed)) == "orders"


@pytest.mark.parametrize("code", [*FIELDS, *IDS])
async def test_what_is_no_record_has_no_topic(code):
    side = AccessSide()
    position = stored(side, "orders")
    for wrong in (position + 1, position + 10_000_000, "", "-1", "x" * 32, "²"):
        assert topic_of(side, code, wrong) is None
    assert (
        RecordTopics(side.log, Relays().topic_of).topic_of(10, Asked({"topic": "orders"}, b"", "c")) is None
    )
