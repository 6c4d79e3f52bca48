import msgspec
import pytest
from msgspec.structs import replace
from sending_side import ScriptedPeer, SendingSide, send_header

from gantry_wire.bodies.cluster import TopicConfig
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.headers.messages import SendHeader, SendReplyHeader
from gantry_wire.messages.batch import BatchItem, encode_batch
from gantry_wire.names import SEND_FORBIDDEN_TOPICS

pytestmark = pytest.mark.anyio


@pytest.fixture
async def side():
    return SendingSide()


@pytest.fixture
def peer():
    return ScriptedPeer()


def reply(peer: ScriptedPeer) -> SendReplyHeader:
    assert peer.answers[-1].code == 0, peer.answers[-1].remark
    return peer.answers[-1].read(SendReplyHeader)


async def test_the_record_keeps_what_the_client_sent_byte_for_byte(side):
    peer = ScriptedPeer("10.1.2.3", 51000)
    text = "UNIQ_KEY\x01U1\x02a\x01b\x02WAIT\x01true"
    side.send(peer, properties=text, flag=7, sys_flag=1, body=b"\x00\xff", reconsume_times=2)
    side.flush()
    record = side.records()[0]
    assert record.properties.startswith(text.encode() + b"\x02")
    assert record.property_map() == {
        "UNIQ_KEY": "U1", "a": "b", "WAIT": "true", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true",
        "CLUSTER": "DefaultCluster",
    }  # fmt: skip
    assert (record.flag, record.sys_flag, record.body, record.reconsume_times) == (7, 1, b"\x00\xff", 2)
    assert record.born_address == ("10.1.2.3", 51000)
    assert record.born_timestamp == 1_699_999_999_000
    assert record.message_id == reply(peer).msg_id


async def test_properties_that_the_client_set_are_not_added_again(side, peer):
    side.send(peer, properties={"CLUSTER": "mine", "UNIQ_KEY": "U1"})
    side.flush()
    assert side.records()[0].properties.count(b"CLUSTER\x01") == 1
    assert side.records()[0].property_map()["CLUSTER"] == "mine"


async def test_a_missing_unique_key_is_created_and_answered(side, peer):
    side.send(peer, properties={"a": "b"})
    side.flush()
    made = side.records()[0].property_map()["UNIQ_KEY"]
    assert len(made) == 32
    assert reply(peer).transaction_id == made


async def test_transient_properties_are_not_stored(side, peer):
    side.send(peer, properties={"UNIQ_KEY": "U1", "__RMQ.TRANSIENT.X": "1", "a": "b"})
    side.flush()
    assert "__RMQ.TRANSIENT.X" not in side.records()[0].property_map()
    assert side.records()[0].property_map()["a"] == "b"


async def test_an_ipv6_client_is_stored_with_its_whole_address(side):
    peer = ScriptedPeer("::1")
    side.send(peer)
    side.flush()
    assert side.records()[0].born_address == ("::1", 40000)
    assert reply(peer).queue_offset == 0


async def test_one_way_sends_are_stored_and_never_answered(side, peer):
    side.send(peer, oneway=True)
    side.send(peer, "%illegal$", oneway=True)
    side.flush()
    assert peer.answers == []
    assert len(side.records()) == 1


async def test_code_10_with_long_names_is_the_same(side, peer):
    fields = send_header("orders", properties="UNIQ_KEY\x01U9\x02").__struct_fields__
    header = send_header("orders", properties="UNIQ_KEY\x01U9\x02")
    long = SendHeader(**{name: getattr(header, name) for name in fields})
    side.ask(peer, RequestCode.SEND_MESSAGE, long, b"old")
    side.flush()
    assert side.records()[0].body == b"old"


async def test_the_cpp_clients_bare_numbers_are_read(side, peer):
    fields = {name: str(value) for name, value in send_header("orders").to_fields().items()}
    fields["gantryUnknown"] = "x"
    side.ask(peer, RequestCode.SEND_MESSAGE_V2, fields, b"loose")
    side.flush()
    assert side.records()[0].body == b"loose"


# RocketMQ 5.3.3's checks of a send, in their order


@pytest.mark.parametrize("topic", sorted(SEND_FORBIDDEN_TOPICS))
async def test_forbidden_system_topics_answer_16(side, peer, topic):
    side.send(peer, topic)
    assert peer.answers[0].code == ResponseCode.NO_PERMISSION
    assert peer.answers[0].remark == f"Sending message to topic[{topic}] is forbidden."


@pytest.mark.parametrize("topic", ["GANTRY_SYS_SEGMENT", "GANTRY_SYS_PROBE", "GANTRY_SYS_ANYTHING"])
async def test_gantrys_own_topics_answer_16(side, peer, topic):
    side.send(peer, topic)
    assert peer.answers[0].code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize("topic", ["GANTRY_SYS_PROBE", "GANTRY_SYS_TASKS"])
async def test_the_probe_and_task_topics_take_marked_sends_from_near_only(side, peer, topic):
    side.send(peer, topic, probe=True)
    side.send(ScriptedPeer("192.168.1.9"), topic, probe=True)
    far = ScriptedPeer("8.8.8.8")
    side.send(far, topic, probe=True)
    side.flush()
    assert reply(peer).queue_offset == 0
    assert far.answers[0].code == ResponseCode.NO_PERMISSION
    side.send(peer, topic)
    assert peer.answers[-1].code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize("topic", ["a b", "", "x" * 128, "ü"])
async def test_an_illegal_topic_name_answers_29(side, peer, topic):
    side.send(peer, topic)
    assert peer.answers[0].code == ResponseCode.INVALID_PARAMETER


async def test_an_unknown_topic_is_created_from_the_template(side, peer):
    side.send(peer, "fresh")
    side.flush()
    config = side.topics.find("fresh")
    assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (4, 4, 6)
    assert reply(peer).queue_offset == 0


async def test_without_automatic_creation_an_unknown_topic_answers_17(peer):
    side = SendingSide(auto_create_topics=False)
    side.send(peer, "fresh")
    assert peer.answers[0].code == ResponseCode.TOPIC_NOT_EXIST
    assert peer.answers[0].remark.startswith("topic[fresh] not exist, apply first please!")
    assert side.topics.find("fresh") is None


async def test_a_queue_outside_the_topic_answers_29(side, peer):
    side.topics.ensure("orders", 4)
    side.send(peer, queue_id=4)
    assert peer.answers[0].code == ResponseCode.INVALID_PARAMETER
    assert "request queueId[4] is illegal" in peer.answers[0].remark
    side.send(peer, queue_id=3)
    side.flush()
    assert reply(peer).queue_id == 3


async def test_a_negative_queue_id_picks_a_write_queue(side, peer):
    side.topics.ensure("orders", 4)
    for _ in range(40):
        side.send(peer, queue_id=-1)
    side.flush()
    chosen = {answer.read(SendReplyHeader).queue_id for answer in peer.answers}
    assert chosen <= {0, 1, 2, 3}
    assert len(chosen) > 1


async def test_a_retry_topic_of_an_unknown_group_answers_26(side, peer):
    side.groups.set_auto_create(enable=False)
    side.send(peer, "%RETRY%g1")
    assert peer.answers[0].code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


@pytest.mark.parametrize(
    "properties",
    [
        {"DELAY": "3"},
        {"DELAY": "x"},
        {"TIMER_DELAY_SEC": "5"},
        {"TIMER_DELAY_MS": "5"},
        {"TIMER_DELIVER_MS": "5"},
        {"TIMER_DEL_UNIQKEY": "t+u"},
        {"TRAN_MSG": "true"},
    ],
)
async def test_a_batch_with_special_messages_is_refused_with_a_reason_and_never_stored_as_plain(
    side, peer, properties
):
    side.topics.ensure("orders", 4)
    side.flush()
    end = side.log.end
    side.send_batch(peer, [(b"a", {}), (b"b", properties)])
    side.flush()
    assert [answer.code for answer in peer.answers] == [ResponseCode.MESSAGE_ILLEGAL]
    assert "nothing was stored" in peer.answers[0].remark or "must be" in peer.answers[0].remark
    assert side.records() == []
    assert side.log.end == end


async def test_a_transaction_in_the_system_flag_alone_is_refused_too(side, peer):
    side.send(peer, sys_flag=0x4)
    assert peer.answers[0].code == ResponseCode.MESSAGE_ILLEGAL


async def test_a_delay_of_zero_is_no_delay(side, peer):
    side.send(peer, properties={"DELAY": "0", "UNIQ_KEY": "U"})
    side.flush()
    assert reply(peer).queue_offset == 0


async def test_a_body_over_the_limit_answers_13(peer):
    side = SendingSide(message_bytes_max=10)
    side.send(peer, body=b"x" * 11)
    side.send(peer, body=b"x" * 10)
    side.flush()
    assert [answer.code for answer in peer.answers] == [ResponseCode.MESSAGE_ILLEGAL, 0]


async def test_properties_over_the_limit_answer_13(side, peer):
    side.send(peer, properties={"a": "x" * 32_700})
    assert peer.answers[0].code == ResponseCode.MESSAGE_ILLEGAL


async def test_an_unknown_code_answers_3(side, peer):
    side.ask(peer, 4711)
    assert peer.answers[0].code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert peer.answers[0].remark == " request type 4711 not supported"


async def test_sends_before_the_configured_time_answer_1(peer):
    side = SendingSide(accept_sends_after_ms=1_700_000_005_000)
    side.send(peer)
    assert peer.answers[0].code == ResponseCode.SYSTEM_ERROR
    side.pass_time(6)
    side.send(peer)
    side.flush()
    assert reply(peer).queue_offset == 0


# Batches


async def test_a_batch_lies_together_and_gets_one_answer(side, peer):
    side.send(peer)
    side.send_batch(peer, [(b"a", {"UNIQ_KEY": "A"}), (b"b", {"TAGS": "t"}), (b"c", {})])
    side.flush()
    answer = reply(peer)
    ids = answer.msg_id.split(",")
    assert answer.queue_offset == 1
    assert [record.body for record in side.records()] == [b"hi", b"a", b"b", b"c"]
    assert ids == [record.message_id for record in side.records()[1:]]
    assert side.records()[1].property_map()["CLUSTER"] == "DefaultCluster"


async def test_a_batch_asked_per_item_answers_each(side, peer):
    side.send_batch(peer, [(b"a", {"UNIQ_KEY": "A"}), (b"b", {"UNIQ_KEY": "B"})], per_item=True)
    side.flush()
    items = msgspec.json.decode(peer.answers[0].body)
    assert [item["uniqKey"] for item in items] == ["A", "B"]
    assert [item["queueOffset"] for item in items] == [0, 1]
    assert items[1]["position"] == side.records()[1].position
    assert [item["duplicate"] for item in items] == [False, False]


async def test_a_batch_asked_per_item_may_be_larger_than_a_message(peer):
    side = SendingSide(segment_bytes=32 * 1024 * 1024)
    bodies = [b"x" * 3_000_000] * 5
    side.send_batch(peer, [(body, {}) for body in bodies], per_item=True)
    side.flush()
    assert peer.answers[0].code == ResponseCode.SUCCESS
    assert [record.body for record in side.records()] == bodies


@pytest.mark.parametrize(
    ("sizes", "per_item"), [((10, 4 * 1024 * 1024 + 1), True), ((3_000_000, 3_000_000), False)]
)
async def test_a_batch_with_too_much_in_it_stores_nothing(side, peer, sizes, per_item):
    side.send_batch(peer, [(b"x" * size, {}) for size in sizes], per_item=per_item)
    side.flush()
    assert peer.answers[0].code == ResponseCode.MESSAGE_ILLEGAL
    assert side.records() == []


async def test_a_malformed_batch_stores_nothing(side, peer):
    side.ask(peer, RequestCode.SEND_BATCH_MESSAGE, send_header("orders", batch=True), b"\0\0\0\7nonsense")
    side.flush()
    assert peer.answers[0].code == ResponseCode.MESSAGE_ILLEGAL
    assert side.records() == []


async def test_a_batch_to_a_retry_topic_answers_13(side, peer):
    side.topics.ensure("%RETRY%g", 1)
    side.send_batch(peer, [(b"a", {})], topic="%RETRY%g")
    assert peer.answers[0].code == ResponseCode.MESSAGE_ILLEGAL
    assert peer.answers[0].remark == "batch request does not support retry group g"


@pytest.mark.parametrize("code", [RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE])
@pytest.mark.parametrize(("batch", "stored"), [(True, [b"a", b"b"]), (False, None), (None, None)])
async def test_the_header_marks_a_batch_whatever_the_code(side, peer, code, batch, stored):
    body = encode_batch([BatchItem(0, b"a", b""), BatchItem(0, b"b", b"")])
    side.ask(peer, code, send_header("orders", batch=batch), body)
    side.flush()
    assert peer.answers[0].code == 0
    assert [record.body for record in side.records()] == (stored or [body])


async def test_ordered_topics_are_refused_as_soon_as_the_broker_may_not_be_written_to(side, peer):
    for topic in ("ordered", "plain"):
        side.topics.put(replace(side.topics.ensure(topic, 1), order=topic == "ordered"))
    answers = []
    for permission in (6, 4, 6):
        side.sending.targets.set_broker_permission(permission)
        for topic in ("ordered", "plain"):
            for _ in range(2):
                opaque = side.send(peer, topic=topic)
                side.flush()
                answers.append(next(answer.code for answer in peer.answers if answer.opaque == opaque))
    assert answers == [0, 0, 0, 0, ResponseCode.NO_PERMISSION, ResponseCode.NO_PERMISSION, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("properties", "queue_id"),
    [
        ({"_SYS_MSG_PRIORITY_": "0"}, 0),
        ({"_SYS_MSG_PRIORITY_": "2"}, 2),
        ({"_SYS_MSG_PRIORITY_": "99"}, 3),
        ({"_SYS_MSG_PRIORITY_": "-1"}, 1),
        ({"_SYS_MSG_PRIORITY_": "x"}, 1),
        ({"_SYS_MSG_PRIORITY_": "2", "__SHARDINGKEY": "g"}, 1),
        ({"_SYS_MSG_PRIORITY_": "2", "TIMER_DELIVER_MS": "1"}, 1),
    ],
)
async def test_a_priority_selects_the_queue(side, peer, properties, queue_id):
    side.topics.put(TopicConfig(topic_name="orders", read_queue_nums=4, write_queue_nums=4))
    side.send(peer, queue_id=1, properties={"UNIQ_KEY": "U1", **properties})
    side.flush()
    assert reply(peer).queue_id == queue_id
    assert len(side.records("orders", queue_id)) == 1
