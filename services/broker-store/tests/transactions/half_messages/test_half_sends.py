"""The stored form of a transactional send, and the answer to its sender."""

import pytest
from sending_side import ScriptedPeer, SendingSide

from gantry_wire.codes import ResponseCode
from gantry_wire.headers.messages import SendReplyHeader
from gantry_wire.messages.properties import format_properties, index_key_hash, tags_code
from gantry_wire.names import HALF_TOPIC

pytestmark = pytest.mark.anyio

HALF = {"TRAN_MSG": "true", "PGROUP": "pg", "UNIQ_KEY": "U1", "TAGS": "a", "KEYS": "o-1"}


@pytest.fixture
async def side():
    return SendingSide()


@pytest.fixture
def peer():
    return ScriptedPeer()


def send_half(side, peer, properties=HALF, **more):
    side.send(peer, queue_id=more.pop("queue_id", 2), properties=properties, **more)
    side.flush()


async def test_a_half_lies_in_the_half_topic_and_nowhere_else(side, peer):
    send_half(side, peer, body=b"pay", sys_flag=0x4 | 0x1, flag=3)
    record = side.records(HALF_TOPIC)[0]
    assert (record.body, record.flag, record.queue_id, record.queue_offset) == (b"pay", 3, 0, 0)
    assert record.sys_flag == 0x1, "prepared bits are cleared, or no reader of RocketMQ would see the half"
    assert side.records("orders", 2) == []


async def test_the_client_s_property_bytes_stay_and_ours_follow(side, peer):
    send_half(side, peer)
    raw = side.records(HALF_TOPIC)[0].properties
    assert raw.startswith(format_properties(HALF))
    assert raw.endswith(b"__transactionId__\x01U1\x02REAL_TOPIC\x01orders\x02REAL_QID\x012\x02")


async def test_the_answer_names_half_offset_transaction_and_the_queue_asked_for(side, peer):
    send_half(side, peer)
    send_half(side, peer, {**HALF, "UNIQ_KEY": "U2"}, queue_id=1)
    reply = peer.answers[-1].read(SendReplyHeader)
    assert (reply.queue_id, reply.queue_offset, reply.transaction_id) == (1, 1, "U2")
    assert reply.msg_id == side.records(HALF_TOPIC)[1].message_id


async def test_a_half_keeps_the_tags_code_of_its_message(side, peer):
    send_half(side, peer)
    unit = side.queues.find(HALF_TOPIC, 0).read(0, 1)
    assert int.from_bytes(unit[12:], "big") == tags_code("a")


async def test_a_real_topic_set_by_the_client_does_not_count(side, peer):
    send_half(side, peer, {**HALF, "REAL_TOPIC": "RMQ_SYS_TRACE_TOPIC", "REAL_QID": "9"})
    named = side.records(HALF_TOPIC)[0].property_map()
    assert (named["REAL_TOPIC"], named["REAL_QID"]) == ("orders", "2")


async def test_without_a_producer_group_no_producer_can_be_checked(side, peer):
    send_half(side, peer, {"TRAN_MSG": "true", "UNIQ_KEY": "U1"})
    assert peer.answers[0].code == ResponseCode.MESSAGE_ILLEGAL
    assert "PGROUP" in peer.answers[0].remark
    assert side.records(HALF_TOPIC) == []


async def test_properties_that_grow_over_the_limit_are_refused(side, peer):
    send_half(side, peer, {**HALF, "x": "y" * 32_560})
    assert peer.answers[0].code == ResponseCode.MESSAGE_ILLEGAL
    assert "32703" in peer.answers[0].remark


async def test_a_half_is_found_by_its_unique_key(side, peer):
    send_half(side, peer)
    found = side.store.index.lookup(index_key_hash(HALF_TOPIC, "U1"), 0, 2**62, 8)
    assert list(found) == [side.records(HALF_TOPIC)[0].position]


async def test_a_half_survives_a_kill(side, peer):
    send_half(side, peer)
    again = side.reopen()
    assert [record.property_map()["UNIQ_KEY"] for record in again.records(HALF_TOPIC)] == ["U1"]
    assert again.records("orders", 2) == []


async def test_a_keyed_half_sent_again_is_answered_with_the_first_also_after_a_kill(side, peer):
    keyed = {**HALF, "__GANTRY_KEY": "k"}
    send_half(side, peer, keyed)
    send_half(side, peer, {**keyed, "UNIQ_KEY": "U2"})
    again = side.reopen()
    send_half(again, peer, {**keyed, "UNIQ_KEY": "U3"})
    replies = [answer.read(SendReplyHeader) for answer in peer.answers]
    assert [(reply.transaction_id, reply.queue_id, reply.queue_offset) for reply in replies] == [
        ("U1", 2, 0)
    ] * 3
    assert [bool(reply.duplicate) for reply in replies] == [False, True, True]
    assert len(again.records(HALF_TOPIC)) == 1


async def test_a_half_and_a_plain_message_do_not_share_a_key(side, peer):
    send_half(side, peer, {**HALF, "__GANTRY_KEY": "k"})
    side.send(peer, properties={"UNIQ_KEY": "U2", "TAGS": "a", "KEYS": "o-1", "__GANTRY_KEY": "k"})
    side.flush()
    assert peer.answers[-1].code == ResponseCode.MESSAGE_ILLEGAL


@pytest.mark.parametrize(
    "delay", [{"DELAY": "soon"}, {"TIMER_DELAY_SEC": "x"}, {"TIMER_DELAY_SEC": str(41 * 86_400)}]
)
async def test_an_impossible_delay_is_refused_at_the_begin(side, peer, delay):
    send_half(side, peer, {**HALF, **delay})
    assert peer.answers[0].code == ResponseCode.MESSAGE_ILLEGAL
    assert side.records(HALF_TOPIC) == []
