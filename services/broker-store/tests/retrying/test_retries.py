import pytest
from sending_side import ScriptedPeer, SendingSide, send_header

from gantry_wire.bodies.cluster import SubscriptionGroupConfig
from gantry_wire.codes import RequestCode

pytestmark = pytest.mark.anyio
RETRY, DEAD = "%RETRY%g", "%DLQ%g"


@pytest.fixture
async def side():
    side = SendingSide()
    side.groups.set_auto_create(enable=False)
    side.groups.put(SubscriptionGroupConfig(group_name="g", retry_max_times=3))
    return side


def send(side, reconsume_times, maximum=None, version=479, properties="UNIQ_KEY\x01U\x02"):
    from gantry_wire.frames.encode import encode_request
    from gantry_wire.frames.frame_stream import FrameDecoder

    peer = ScriptedPeer()
    header = send_header(
        RETRY, reconsume_times=reconsume_times, max_reconsume_times=maximum, properties=properties
    )
    frame = encode_request(RequestCode.SEND_MESSAGE_V2, 1, header, b"again")
    raw = FrameDecoder().receive(frame.replace(b'"version":479', b'"version":%03d' % version))[0]
    side.receive(peer, raw)
    side.flush()
    return peer.answers[0]


async def test_a_message_is_retried_until_its_tries_are_used_up(side):
    assert send(side, 3).code == 0
    assert len(side.records(RETRY)) == 1
    assert send(side, 4).code == 0
    assert [record.body for record in side.records(DEAD)] == [b"again"]
    dead = side.topics.find(DEAD)
    assert (dead.write_queue_nums, dead.perm) == (1, 6)


async def test_a_client_may_set_its_number_of_tries(side):
    send(side, 2, maximum=1)
    assert len(side.records(DEAD)) == 1


async def test_an_old_client_gets_no_request(side):
    send(side, 2, maximum=1, version=120)
    assert side.records(DEAD) == []


async def test_a_dead_letter_is_not_delayed_any_more(side):
    answer = send(side, 9, properties="DELAY\x015\x02UNIQ_KEY\x01U\x02")
    assert answer.code == 0
    assert side.records(DEAD)[0].property_map()["DELAY"] == "-1"


async def test_a_delayed_retry_waits_out_its_level_first(side):
    assert send(side, 1, properties="DELAY\x015\x02UNIQ_KEY\x01U\x02").code == 0
    record = side.records("SCHEDULE_TOPIC_XXXX", 4)[0]
    assert record.property_map()["REAL_TOPIC"] == RETRY
    assert record.reconsume_times == 1


async def test_a_dead_letter_holds_its_reason(side):
    send(side, 4)
    properties = side.records(DEAD)[0].property_map()
    assert properties["__GANTRY_DLQ_REASON"] == "its 3 tries are used up"
    assert (properties["__GANTRY_DLQ_ATTEMPTS"], properties["__GANTRY_DLQ_CONSUMER"]) == ("4", "pg")


async def test_a_send_back_of_an_orderly_consumer_is_a_dead_letter_at_once(side):
    now_ms = int(side.clock.monotonic() * 1000)
    side.foundation.locks.table.lock("g", "a client", [("orders", "broker-a", 0)], now_ms, 1)
    assert send(side, 1).code == 0
    assert len(side.records(DEAD)) == 1
    assert "orderly" in side.records(DEAD)[0].property_map()["__GANTRY_DLQ_REASON"]


async def test_a_copy_loses_the_mark_of_the_item_it_was_delivered_from(side):
    mark = "__GANTRY_SETTLED\x01SCHEDULE_TOPIC_XXXX:0:7::1/1\x02"
    send(
        side, 1, properties=f"UNIQ_KEY\x01U\x02MSG_REGION\x01r\x02TRACE_ON\x01true\x02CLUSTER\x01c\x02{mark}"
    )
    assert "__GANTRY_SETTLED" not in side.records(RETRY)[0].property_map()
    peer = ScriptedPeer()
    side.send_batch(peer, [(b"a", {"UNIQ_KEY": "A", "__GANTRY_SETTLED": "SCHEDULE_TOPIC_XXXX:0:7::1/1"})])
    side.flush()
    assert "__GANTRY_SETTLED" not in side.records("orders")[0].property_map()
