"""Requests 9021, 9023, 9024, 9025 and 323: single transactions by their key, and checks pushed to producers."""

import msgspec
import pytest
from sending_side import ScriptedPeer
from transactions_side import TransactionsSide

from gantry_wire.codes import GantryCode, RequestCode, ResponseCode
from gantry_wire.headers.messages import CheckTransactionHeader
from gantry_wire.names import HALF_TOPIC
from gantry_wire.private_requests.transactions import (
    AskProducer,
    AskState,
    DecideTransaction,
    FindProducer,
    ProducerAsked,
    ProducerFound,
    TransactionView,
)
from gantry_wire.records.half_message import sent_message
from gantry_wire.records.message_record import decode_record

pytestmark = pytest.mark.anyio
DECIDE, STATE = GantryCode.DECIDE_TRANSACTION, GantryCode.TRANSACTION_STATE


@pytest.fixture
async def side():
    return TransactionsSide()


@pytest.fixture
def peer():
    return ScriptedPeer()


async def state_of(side, peer, key="U1"):
    code, view = await side.ask_json(peer, STATE, AskState(key=key), TransactionView)
    return view.state if code == 0 else code


async def test_the_state_follows_the_transaction_and_survives_a_restart(side, peer):
    await side.begin(peer)
    assert await state_of(side, peer) == "open"
    await side.ask_json(peer, DECIDE, DecideTransaction(key="U1", decision="commit"), TransactionView)
    for one in (side, side.reopen()):
        code, view = await one.ask_json(peer, STATE, AskState(key="U1"), TransactionView)
        assert (code, view.state, view.topic, view.producer_group) == (0, "committed", "orders", "pg")


@pytest.mark.parametrize("settings", [{"flush": "async"}, {}])
async def test_a_decision_by_key_waits_for_a_half_that_is_acknowledged_and_not_yet_visible(peer, settings):
    side = TransactionsSide(**settings)
    named = {"TRAN_MSG": "true", "PGROUP": "pg", "UNIQ_KEY": "U1", "WAIT": "false"}
    side.send(peer, "orders", b"pay", 2, properties=named)
    side.end_turn()
    assert [answer.code for answer in peer.answers] == [0]
    assert side.records(HALF_TOPIC) == []
    order = DecideTransaction(key="U1", decision="commit")
    code, view = await side.ask_json(peer, DECIDE, order, TransactionView)
    assert (code, view.state, len(side.records("orders", 2))) == (0, "committed", 1)


async def test_an_unknown_transaction_is_22(side, peer):
    assert await state_of(side, peer, "none") == ResponseCode.QUERY_NOT_FOUND


async def test_decisions_by_key_are_made_once(side, peer):
    half = await side.begin(peer)
    await side.check(peer, half.queue_offset)
    order = DecideTransaction(key="U1", decision="rollback")
    _, first = await side.ask_json(peer, DECIDE, order, TransactionView)
    _, again = await side.ask_json(peer, DECIDE, order, TransactionView)
    assert (first.state, first.changed, again.state, again.changed) == (
        "rolledBack",
        True,
        "rolledBack",
        False,
    )
    code, fields = await side.ask_json(peer, DECIDE, DecideTransaction(key="U1", decision="commit"))
    assert (code, fields["gantryCode"]) == (ResponseCode.ILLEGAL_OPERATION, "TRANSACTION_DECIDED")
    assert side.records("orders", 2) == []


@pytest.mark.parametrize("decision", ["commit", "rollback"])
async def test_a_parked_one_is_decided_by_hand_with_an_audit_record(side, peer, decision):
    half = await side.begin(peer)
    await side.park(peer, half.queue_offset)
    assert await state_of(side, peer) == "parked"
    order = DecideTransaction(key="U1", decision=decision, by="a person", reason="looked it up")
    code, view = await side.ask_json(peer, DECIDE, order, TransactionView)
    assert (code, view.changed) == (0, True)
    assert len(side.records("orders", 2)) == (decision == "commit")
    (audit,) = side.records("GANTRY_SYS_AUDIT")
    body = msgspec.json.decode(audit.body)
    assert (body["transaction"], body["decision"], body["by"], body["reason"]) == (
        "U1",
        decision,
        "a person",
        "looked it up",
    )
    assert await state_of(side.reopen(), peer) == ("committed" if decision == "commit" else "rolledBack")


async def test_323_puts_a_parked_half_back_with_no_checks(side, peer):
    half = await side.begin(peer)
    offset = await side.park(peer, await side.check(peer, half.queue_offset))
    parked = side.records("TRANS_CHECK_MAX_TIME_TOPIC")[offset]
    side.ask(peer, RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": parked.message_id})
    await side.settled()
    assert peer.answers[-1].code == 0
    assert side.records(HALF_TOPIC)[-1].property_map()["TRANSACTION_CHECK_TIMES"] == "0"
    assert await state_of(side, peer) == "open"
    side.ask(peer, RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": parked.message_id})
    await side.settled()
    assert peer.answers[-1].code == ResponseCode.SYSTEM_ERROR
    assert peer.answers[-1].remark.startswith("Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed.")


def question(half, record, **changes):
    fields = {
        "producer_group": "pg", "key": "U1", "broker": "broker-a", "home": "127.0.0.1:10911",
        "offset": half.queue_offset, "position": record.position, "message_id": record.message_id, "message": b"",
    }  # fmt: skip
    return AskProducer(**{**fields, **changes})


async def test_a_check_is_pushed_to_a_live_client_with_the_message_as_sent(side, peer):
    half = await side.begin(peer)
    record = side.records(HALF_TOPIC)[0]
    ask = question(half, record)
    _, nobody = await side.ask_json(peer, GantryCode.ASK_PRODUCER, ask, ProducerAsked)
    assert nobody.asked is False
    producer = side.connect_producer()
    _, found = await side.ask_json(
        peer, GantryCode.FIND_PRODUCER, FindProducer(producer_group="pg"), ProducerFound
    )
    assert found.channels == 1
    _, answer = await side.ask_json(peer, GantryCode.ASK_PRODUCER, ask, ProducerAsked)
    assert answer.asked is True
    (push,) = producer.answers
    assert (push.code, push.is_oneway, push.ext["bname"]) == (39, True, "broker-a")
    header = push.read(CheckTransactionHeader)
    assert (header.tran_state_table_offset, header.commit_log_offset) == (0, record.position)
    assert (header.msg_id, header.transaction_id, header.offset_msg_id) == ("U1", "U1", record.message_id)
    shown = decode_record(push.body)
    assert (shown.topic, shown.queue_id, shown.body) == (b"orders", 2, b"pay")


async def test_checks_rotate_over_the_clients_and_skip_closing_ones(side, peer):
    half = await side.begin(peer)
    ask = question(half, side.records(HALF_TOPIC)[0])
    producers = [side.connect_producer(port=port) for port in (41_000, 41_001, 41_002)]
    producers[1].is_closing = True
    for _ in range(4):
        await side.ask_json(peer, GantryCode.ASK_PRODUCER, ask, ProducerAsked)
    assert [len(producer.answers) for producer in producers] == [2, 0, 2]


async def test_a_client_without_the_right_on_the_topic_gets_no_message_by_saying_it_is_of_the_group(
    side, peer
):
    half = await side.begin(peer)
    record = side.records(HALF_TOPIC)[0]
    ask = question(half, record)
    stranger = side.connect_producer(port=41_000)
    side.refused.append((stranger, "orders"))
    for message in (b"", sent_message(side.log.read(record.position, record.size))):
        _, answer = await side.ask_json(
            peer, GantryCode.ASK_PRODUCER, msgspec.structs.replace(ask, message=message), ProducerAsked
        )
        assert (answer.asked, stranger.answers) == (False, [])
    producer = side.connect_producer(port=41_001)
    for _ in range(3):
        await side.ask_json(peer, GantryCode.ASK_PRODUCER, ask, ProducerAsked)
    assert (len(producer.answers), stranger.answers) == (3, [])


async def test_a_decision_about_another_brokers_half_is_passed_on_only_for_a_client_that_may_send(side, peer):
    half = await side.begin(peer)
    side.connect_producer()
    ask = question(half, side.records(HALF_TOPIC)[0], home="127.0.0.1:1")
    await side.ask_json(peer, GantryCode.ASK_PRODUCER, ask, ProducerAsked)
    stranger = ScriptedPeer(port=41_002)
    side.refused.append((stranger, "orders"))
    answer = await side.end(stranger, half)
    assert (answer.code, answer.remark) == (
        ResponseCode.NO_PERMISSION,
        "no right to send to the topic[orders]",
    )


async def test_323_resumes_the_transaction_of_the_record_and_no_other_one_with_its_key(side, peer):
    await side.begin(peer, topic="mine")
    mine = side.records(HALF_TOPIC)[0]
    theirs = await side.begin(peer, topic="theirs")
    await side.park(peer, await side.check(peer, theirs.queue_offset))
    halves = len(side.records(HALF_TOPIC))
    side.ask(peer, RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": mine.message_id})
    await side.settled()
    assert peer.answers[-1].code == ResponseCode.SYSTEM_ERROR
    assert len(side.records(HALF_TOPIC)) == halves


async def test_a_check_about_a_half_that_is_gone_is_22(side, peer):
    half = await side.begin(peer)
    side.connect_producer()
    ask = question(half, side.records(HALF_TOPIC)[0], position=1 << 40)
    code, _ = await side.ask_json(peer, GantryCode.ASK_PRODUCER, ask)
    assert code == ResponseCode.QUERY_NOT_FOUND


async def test_a_half_that_is_copied_while_it_is_looked_up_is_not_called_decided(peer, monkeypatch):
    reads = []

    async def read_while_a_checker_counts(side, function, *arguments):
        found = function(*arguments)
        if not reads:
            reads.append(found)
            await side.check(ScriptedPeer(port=2), 0)
        return found

    monkeypatch.setattr(TransactionsSide, "in_loop", read_while_a_checker_counts)
    side = TransactionsSide()
    await side.begin(peer)
    assert (await side.transactions.lookup.find("U1")).state == "open"
    code, view = await side.ask_json(
        peer, DECIDE, DecideTransaction(key="U1", decision="commit"), TransactionView
    )
    assert (code, view.state, view.changed) == (0, "committed", True)
    assert len(side.records("orders", 2)) == 1
