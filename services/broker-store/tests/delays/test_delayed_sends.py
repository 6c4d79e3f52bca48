import pytest
from sending_side import START_S, ScriptedPeer, SendingSide, send_header

from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.headers.messages import RecallHeader, SendReplyHeader
from gantry_wire.names import SCHEDULE_TOPIC, TIMER_TOPIC

pytestmark = pytest.mark.anyio

NOW = int(START_S * 1000)
DAY = 86_400_000


@pytest.fixture
async def side():
    return SendingSide()


@pytest.fixture
def peer():
    return ScriptedPeer()


def reply(peer: ScriptedPeer, at: int = -1) -> SendReplyHeader:
    assert peer.answers[at].code == 0, peer.answers[at].remark
    return peer.answers[at].read(SendReplyHeader)


def unit_codes(side: SendingSide, topic: str, queue_id: int) -> list[int]:
    queue = side.queues.find(topic, queue_id)
    units = queue.read(queue.min_offset, queue.max_offset - queue.min_offset)
    return [int.from_bytes(units[at + 12 : at + 20], "big", signed=True) for at in range(0, len(units), 20)]


# Levels


async def test_a_level_swaps_topic_and_queue_and_keeps_the_real_ones(side, peer):
    side.topics.ensure("orders", 4)
    side.send(peer, queue_id=3, properties={"UNIQ_KEY": "U1", "DELAY": "3", "TAGS": "a", "KEYS": "k"}, flag=7)
    side.flush()
    assert side.records("orders", 3) == []
    record = side.records(SCHEDULE_TOPIC, 2)[0]
    properties = record.property_map()
    assert (record.topic, record.queue_id, record.queue_offset) == (SCHEDULE_TOPIC.encode(), 2, 0)
    assert (properties["REAL_TOPIC"], properties["REAL_QID"]) == ("orders", "3")
    assert (properties["DELAY"], properties["TAGS"], properties["KEYS"]) == ("3", "a", "k")
    assert (record.body, record.flag) == (b"hi", 7)


async def test_a_unit_of_a_level_holds_the_deliver_time_in_place_of_the_tags_code(side, peer):
    side.send(peer, properties={"DELAY": "1", "TAGS": "a"})
    side.flush()
    assert unit_codes(side, SCHEDULE_TOPIC, 0) == [side.records(SCHEDULE_TOPIC, 0)[0].store_timestamp + 1000]


async def test_the_answer_names_the_target_queue_the_schedule_offset_and_when_it_is_due(side, peer):
    side.topics.ensure("orders", 4)
    for _ in range(2):
        side.send(peer, queue_id=2, properties={"UNIQ_KEY": "U1", "DELAY": "2"})
    side.flush()
    answer = reply(peer)
    record = side.records(SCHEDULE_TOPIC, 1)[1]
    assert (answer.queue_id, answer.queue_offset, answer.msg_id) == (2, 1, record.message_id)
    assert answer.deliver_ms == record.store_timestamp + 5000
    assert (answer.transaction_id, answer.recall_handle, answer.durability) == ("U1", None, "fsync")


@pytest.mark.parametrize(("level", "queue_id"), [("18", 17), ("19", 17), ("2147483647", 17)])
async def test_a_level_above_the_last_is_the_last(side, peer, level, queue_id):
    side.send(peer, properties={"DELAY": level})
    side.flush()
    assert reply(peer).deliver_ms == side.records(SCHEDULE_TOPIC, queue_id)[0].store_timestamp + 7_200_000


@pytest.mark.parametrize("level", ["0", "-1", "-99"])
async def test_a_level_of_zero_or_less_delivers_at_once(side, peer, level):
    side.send(peer, properties={"DELAY": level})
    side.flush()
    assert len(side.records()) == 1
    assert reply(peer).deliver_ms is None


@pytest.mark.parametrize("level", ["x", "1.5", "1s", "½", "1_0", " 5"])
async def test_a_level_that_is_not_a_number_is_refused_with_a_reason(side, peer, level):
    side.send(peer, properties={"DELAY": level})
    assert peer.answers[0].code == ResponseCode.MESSAGE_ILLEGAL
    assert "whole number" in peer.answers[0].remark
    assert side.log.end == 0


@pytest.mark.parametrize("level", ["+5", "05"])
async def test_a_level_in_another_notation_is_due_at_the_same_time_after_a_restart(side, peer, level):
    side.send(peer, properties={"DELAY": level, "UNIQ_KEY": "K"})
    side.flush()
    unit = side.queues.find("SCHEDULE_TOPIC_XXXX", 4).read(0, 1)
    assert int.from_bytes(unit[12:], "big") == side.clock.now_ms() + 60_000
    assert side.reopen().queues.find("SCHEDULE_TOPIC_XXXX", 4).read(0, 1) == unit


async def test_a_longer_list_of_levels_has_more_queues(peer):
    side = SendingSide(delay_levels=" ".join(f"{n}s" for n in range(1, 21)))
    side.send(peer, properties={"DELAY": "20"})
    side.flush()
    assert unit_codes(side, SCHEDULE_TOPIC, 19) == [
        side.records(SCHEDULE_TOPIC, 19)[0].store_timestamp + 20_000
    ]
    assert side.topics.find(SCHEDULE_TOPIC).read_queue_nums == 20


async def test_a_real_place_set_by_the_client_does_not_count(side, peer):
    side.send(peer, properties={"DELAY": "1", "REAL_TOPIC": "elsewhere", "REAL_QID": "9", "a": "b"})
    side.flush()
    properties = side.records(SCHEDULE_TOPIC, 0)[0].property_map()
    assert (properties["REAL_TOPIC"], properties["REAL_QID"], properties["a"]) == ("orders", "0", "b")


async def test_properties_too_long_with_what_a_delay_needs_are_refused(side, peer):
    side.send(peer, properties={"UNIQ_KEY": "U", "DELAY": "1", "a": "x" * 32_660})
    assert peer.answers[0].code == ResponseCode.MESSAGE_ILLEGAL
    assert "the limit is 32767" in peer.answers[0].remark


# Instants


@pytest.mark.parametrize(
    ("properties", "deliver_ms"),
    [
        ({"TIMER_DELAY_SEC": "5"}, NOW + 5000),
        ({"TIMER_DELAY_MS": "1234"}, NOW + 1234),
        ({"TIMER_DELIVER_MS": str(NOW + 7)}, NOW + 7),
        ({"TIMER_DELIVER_MS": str(NOW + 7), "TIMER_DELAY_MS": "9", "TIMER_DELAY_SEC": "1"}, NOW + 1000),
        ({"TIMER_DELIVER_MS": str(NOW + 7), "TIMER_DELAY_MS": "9"}, NOW + 9),
        ({"TIMER_DELAY_MS": str(40 * DAY)}, NOW + 40 * DAY),
    ],
)
async def test_an_instant_goes_to_the_timer_s_topic_to_the_millisecond(side, peer, properties, deliver_ms):
    side.send(peer, queue_id=1, properties={"UNIQ_KEY": "U1", **properties})
    side.flush()
    record = side.records(TIMER_TOPIC)[0]
    stored = record.property_map()
    assert stored["TIMER_OUT_MS"] == str(deliver_ms)
    assert (stored["REAL_TOPIC"], stored["REAL_QID"]) == ("orders", "1")
    answer = reply(peer)
    assert (answer.queue_id, answer.queue_offset, answer.deliver_ms) == (1, 0, deliver_ms)
    assert answer.recall_handle


@pytest.mark.parametrize(
    "properties",
    [
        {"TIMER_DELAY_SEC": "0"},
        {"TIMER_DELAY_MS": "-5"},
        {"TIMER_DELIVER_MS": str(NOW)},
        {"TIMER_DELIVER_MS": "1"},
        {"TIMER_OUT_MS": str(NOW + 9000), "TIMER_DELAY_MS": "9000"},
    ],
)
async def test_an_instant_that_is_past_is_delivered_at_once(side, peer, properties):
    side.send(peer, properties=properties)
    side.flush()
    assert len(side.records()) == 1
    assert (reply(peer).deliver_ms, reply(peer).recall_handle) == (None, None)


@pytest.mark.parametrize("text", ["soon", "1.5", "", "9" * 25, "0x10", "1e3"])
async def test_an_instant_that_is_not_a_number_is_refused_with_a_reason(side, peer, text):
    side.topics.ensure("orders", 4)
    side.flush()
    end = side.log.end
    side.send(peer, properties=f"UNIQ_KEY\x01U\x02TIMER_DELAY_MS\x01{text}\x02")
    side.flush()
    if not text:  # a property without a value is none
        assert len(side.records()) == 1
        return
    assert peer.answers[0].code == ResponseCode.MESSAGE_ILLEGAL
    assert "TIMER_DELAY_MS must be a whole number" in peer.answers[0].remark
    assert side.log.end == end


async def test_an_instant_beyond_the_horizon_is_refused_with_rocketmq_s_code(side, peer):
    side.send(peer, properties={"TIMER_DELAY_MS": str(40 * DAY + 1)})
    assert peer.answers[0].code == ResponseCode.MESSAGE_ILLEGAL
    assert f"bigger than the max delay {40 * DAY}ms" in peer.answers[0].remark
    assert peer.answers[0].fields["gantryCode"] == "DELAY_TOO_LONG"


async def test_a_level_goes_before_an_instant(side, peer):
    side.send(
        peer, properties={"UNIQ_KEY": "U", "DELAY": "2", "TIMER_DELAY_MS": "9", "TIMER_DELIVER_MS": "soon"}
    )
    side.flush()
    stored = side.records(SCHEDULE_TOPIC, 1)[0].property_map()
    assert "TIMER_DELAY_MS" not in stored
    assert "TIMER_DELIVER_MS" not in stored


async def test_clients_may_not_send_to_the_system_queues_themselves(side, peer):
    side.send(peer, TIMER_TOPIC)
    side.send(peer, SCHEDULE_TOPIC)
    assert [answer.code for answer in peer.answers] == [ResponseCode.NO_PERMISSION] * 2


# Keys


def keyed(key: str, **more: str) -> dict[str, str]:
    return {"UNIQ_KEY": f"U{key}", "__GANTRY_KEY": key, **more}


@pytest.mark.parametrize("delay", [{"DELAY": "4"}, {"TIMER_DELAY_MS": "60000"}])
async def test_a_repeat_of_a_delayed_send_gets_its_first_answer_also_after_a_crash(side, peer, delay):
    side.topics.ensure("orders", 4)
    side.send(peer, queue_id=2, properties=keyed("k", **delay))
    side.flush()
    side.pass_time(1)
    side.send(peer, queue_id=2, properties={**keyed("k", **delay), "UNIQ_KEY": "other"})
    side.flush()
    again = side.reopen()
    again.send(peer, queue_id=2, properties={**keyed("k", **delay), "UNIQ_KEY": "third"})
    again.flush()
    first, second, third = (reply(peer, at) for at in range(3))
    assert (first.duplicate, second.duplicate, third.duplicate) == (None, True, True)
    for repeat in (second, third):
        assert (repeat.msg_id, repeat.queue_id, repeat.queue_offset) == (first.msg_id, 2, first.queue_offset)
        assert (repeat.deliver_ms, repeat.recall_handle) == (first.deliver_ms, first.recall_handle)
        assert repeat.transaction_id == "Uk"
    topic, queue_id = (SCHEDULE_TOPIC, 3) if "DELAY" in delay else (TIMER_TOPIC, 0)
    assert len(again.records(topic, queue_id)) == 1


async def test_another_delay_under_the_same_key_is_a_conflict(side, peer):
    side.send(peer, properties=keyed("k", DELAY="4"))
    side.flush()
    side.send(peer, properties=keyed("k", DELAY="5"))
    side.send(peer, properties=keyed("k"))
    side.flush()
    assert [answer.code for answer in peer.answers] == [0, 13, 13]


# Crashes


async def test_units_of_delayed_messages_are_rebuilt_from_the_log(side, peer):
    for level in ("1", "5"):
        side.send(peer, properties={"DELAY": level})
    side.send(peer, properties={"TIMER_DELAY_MS": "500", "TAGS": "t"})
    side.flush()
    before = [
        unit_codes(side, *queue) for queue in ((SCHEDULE_TOPIC, 0), (SCHEDULE_TOPIC, 4), (TIMER_TOPIC, 0))
    ]
    again = side.reopen()
    after = [
        unit_codes(again, *queue) for queue in ((SCHEDULE_TOPIC, 0), (SCHEDULE_TOPIC, 4), (TIMER_TOPIC, 0))
    ]
    assert after == before


async def test_under_async_flush_none_overtakes_another_in_a_system_queue(peer):
    side = SendingSide(flush="async")
    side.topics.ensure("orders", 1)
    side.send(peer, properties={"DELAY": "1"})
    side.end_turn()
    assert reply(peer).durability == "written"
    assert side.records(SCHEDULE_TOPIC, 0) == []
    side.flush()
    assert len(side.records(SCHEDULE_TOPIC, 0)) == 1


# Recall


def recall(side: SendingSide, peer: ScriptedPeer, topic: str, handle: str) -> None:
    side.ask(
        peer, RequestCode.RECALL_MESSAGE, RecallHeader(topic=topic, recall_handle=handle, producer_group="pg")
    )


async def test_a_recall_stores_a_message_that_cancels_and_answers_the_unique_key(side, peer):
    side.send(peer, properties={"UNIQ_KEY": "U1", "TIMER_DELAY_MS": "60000"})
    side.flush()
    recall(side, peer, "orders", reply(peer).recall_handle)
    side.flush()
    assert peer.answers[-1].code == 0
    assert peer.answers[-1].fields["msgId"] == "U1"
    first, second = side.records(TIMER_TOPIC)
    cancelling = second.property_map()
    assert cancelling["TIMER_DEL_UNIQKEY"] == "orders+U1"
    assert cancelling["TIMER_OUT_MS"] == first.property_map()["TIMER_OUT_MS"]
    assert (cancelling["UNIQ_KEY"], cancelling["TAGS"], cancelling["PGROUP"]) == ("U1", "_RECALL_TAG_", "pg")
    assert second.body == b"0"


async def test_a_late_recall_or_one_for_another_place_answers_604(side, peer):
    side.send(peer, properties={"UNIQ_KEY": "U1", "TIMER_DELAY_MS": "5000"})
    side.topics.ensure("others", 1)
    side.flush()
    handle = reply(peer).recall_handle
    recall(side, peer, "others", handle)
    recall(side, peer, "orders", "nonsense")
    side.pass_time(6)
    recall(side, peer, "orders", handle)
    recall(side, peer, "missing", handle)
    assert [(answer.code, answer.remark) for answer in peer.answers[1:]] == [
        (604, "recall failed, topic not match"),
        (604, "recall handle is invalid"),
        (604, "recall failed, timestamp invalid"),
        (17, "recall failed, the topic[missing] not exist"),
    ]


async def test_a_recall_of_another_broker_s_handle_or_where_it_is_off_is_refused(peer):
    side = SendingSide(broker_name="broker-b", recall_enable=False)
    other = SendingSide()
    side.topics.ensure("orders", 1)
    recall(side, peer, "orders", "x")
    other.send(peer, properties={"UNIQ_KEY": "U1", "TIMER_DELAY_MS": "5000"})
    other.flush()
    side = SendingSide(broker_name="broker-b")
    side.topics.ensure("orders", 1)
    recall(side, peer, "orders", reply(peer).recall_handle)
    assert [answer.code for answer in peer.answers] == [16, 0, 604]


async def test_a_message_that_cancels_can_be_sent_as_rocketmq_s_clients_do(side, peer):
    side.send(peer, properties={"TIMER_DEL_UNIQKEY": "orders+U1", "TIMER_DELIVER_MS": str(NOW + 5000)})
    side.send(peer, properties={"TIMER_DEL_UNIQKEY": "orders+U1", "TIMER_DELIVER_MS": str(NOW - 1)})
    side.send(peer, properties={"TIMER_DEL_UNIQKEY": "orders+U1"})
    side.flush()
    # Refusals are answered at once, what is stored after its flush.
    assert [answer.code for answer in peer.answers] == [13, 13, 0]
    assert len(side.records(TIMER_TOPIC)) == 1


async def test_a_copy_with_transaction_bits_that_comes_back_is_delayed_and_seen(side, peer):
    side.groups.set_auto_create(enable=False)
    header = send_header(
        "orders",
        properties="UNIQ_KEY\x01U\x02DELAY\x013\x02TRAN_MSG\x01true\x02",
        sys_flag=4,
        reconsume_times=1,
    )
    side.ask(peer, RequestCode.SEND_MESSAGE_V2, header, b"hi")
    side.flush()
    record = side.records(SCHEDULE_TOPIC, 2)[0]
    assert record.sys_flag == 0
