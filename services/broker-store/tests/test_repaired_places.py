"""A reader that meets a damaged record which another replica has gets what a whole log would have given; a store without replicas does not wait."""

import msgspec
import pytest
from repair_side import POSITION_AT, SIZE_AT, Other, RepairSide
from sending_side import ScriptedPeer
from settling_side import deliver

from broker_store.process.disk_care import DiskCare
from broker_store.settling.decided.settled_table import Decision
from gantry_wire.bodies.json_body import decode_body
from gantry_wire.codes import GantryCode, RequestCode, ResponseCode
from gantry_wire.headers.messages import (
    ConsumerSendBackHeader,
    EndTransactionHeader,
    QueryMessageHeader,
    SearchOffsetHeader,
    SendReplyHeader,
    ViewMessageHeader,
)
from gantry_wire.messages.properties import GANTRY_KEY
from gantry_wire.names import HALF_TOPIC, SCHEDULE_TOPIC
from gantry_wire.private_requests.settling import SettleItem
from gantry_wire.private_requests.transactions import (
    AskProducer,
    AskState,
    DecideTransaction,
    TransactionView,
)
from gantry_wire.records.message_record import scan_records
from gantry_wire.records.units import CONSUME_QUEUE_UNIT

pytestmark = pytest.mark.anyio
COMMIT = 8
RETRY_LATER = int(ResponseCode.SERVICE_NOT_AVAILABLE)


@pytest.fixture
def anyio_backend():
    return "asyncio"


def with_messages(*bodies, **properties):
    side = RepairSide()
    side.set_group()
    for body in bodies or ("first message", "second message", "third message"):
        side.put(body, **properties)
    return side


def bodies_in(answer):
    return [record.body.decode() for record in scan_records(answer.body)]


# --- queries


def by_key(key="Usecond message"):
    return 12, QueryMessageHeader(
        topic="orders", key=key, max_num=32, begin_timestamp=0, end_timestamp=1 << 60
    )


@pytest.mark.parametrize("at", [SIZE_AT, POSITION_AT, 88], ids=["size", "position", "body"])
async def test_a_query_by_key_finds_a_message_that_is_damaged_here(at):
    side = with_messages().reopened()
    position = side.damage("orders", offset=1, at=at)
    answer = await side.answer(*by_key())
    assert (answer.code, bodies_in(answer)) == (0, ["second message"])
    assert side.wants == [position]


@pytest.mark.parametrize("at", [SIZE_AT, 88], ids=["size", "body"])
async def test_a_query_by_position_finds_a_message_that_is_damaged_here(at):
    side = with_messages().reopened()
    position = side.damage("orders", offset=1, at=at)
    answer = await side.answer(33, ViewMessageHeader(offset=position))
    assert (answer.code, bodies_in(answer)) == (0, ["second message"])


@pytest.mark.parametrize(
    ("other", "by_key_code", "by_position_code"),
    [(Other.IS_AWAY, RETRY_LATER, RETRY_LATER), (Other.LACKS_IT, 22, 1), (Other.NONE, 22, 1)],
)
async def test_a_query_says_that_a_message_does_not_exist_only_where_no_replica_may_have_it(
    other, by_key_code, by_position_code
):
    side = with_messages().reopened(other)
    position = side.damage("orders", offset=1)
    assert (await side.answer(*by_key())).code == by_key_code
    assert (await side.answer(33, ViewMessageHeader(offset=position))).code == by_position_code


async def offset_at_second(side):
    header = SearchOffsetHeader(topic="orders", queue_id=0, timestamp=side.second_ms)
    return (await side.answer(29, header)).ext["offset"]


async def test_a_search_by_time_reads_a_damaged_head_from_another_replica():
    before = RepairSide()
    for number in range(3):
        before.pass_time(10)
        before.put(f"message {number}")
        if number == 1:
            second_ms = before.clock.now_ms()
    for other, found in ((Other.HAS_IT, "1"), (Other.NONE, "2")):
        side = before.reopened(other)
        side.second_ms = second_ms
        queue = side.queues.find("orders", 0)
        position = CONSUME_QUEUE_UNIT.unpack(queue.read(1, 1))[0]
        segment = side.log.segment_at(position)
        whole = side.files.content(segment.path)[position - segment.start :][:80]
        segment.file.pwritev([bytes(80)], position - segment.start)
        if other is Other.HAS_IT:
            side.repair_with(position, whole)
        assert await offset_at_second(side) == found


# --- delays and settling


def delayed_and_due(*bodies, **more):
    side = RepairSide()
    for body in bodies:
        side.send(
            ScriptedPeer(), body=body, properties={"DELAY": "1", "UNIQ_KEY": f"D{body[:5].decode()}"}, **more
        )
    side.flush()
    side.pass_time(5)
    return side


async def settled(side, offsets):
    queue, answers = side.queues.find(SCHEDULE_TOPIC, 0), []
    items = [SettleItem(at, CONSUME_QUEUE_UNIT.unpack(queue.read(at, 1))[0], [deliver()]) for at in offsets]
    side.sending.settling.settle(SCHEDULE_TOPIC, 0, "", None, items, answers.append)
    await side.until(lambda: answers)
    return [result.status for result in answers[0]]


async def test_a_delayed_message_that_is_damaged_here_is_delivered():
    side = delayed_and_due(b"first of them", b"other message").reopened()
    side.damage(SCHEDULE_TOPIC)
    assert await settled(side, [0, 1]) == ["settled", "settled"]
    assert [record.body for record in side.records("orders")] == [b"first of them", b"other message"]


@pytest.mark.parametrize("other", [Other.IS_AWAY, Other.LACKS_IT, Other.NONE])
async def test_a_delayed_message_that_no_replica_answers_with_waits_and_the_others_are_delivered(other):
    side = delayed_and_due(b"first of them", b"other message").reopened(other)
    side.damage(SCHEDULE_TOPIC)
    assert await settled(side, [0, 1]) == ["badItem", "settled"]
    assert side.store.states.settled.of((SCHEDULE_TOPIC, 0, "")).cursor == 0
    side.other = Other.HAS_IT
    assert await settled(side, [0]) == ["settled" if other is not Other.NONE else "badItem"]


async def test_a_repeat_of_a_keyed_delayed_message_that_is_damaged_here_is_stored_once():
    side = RepairSide()
    properties = {"DELAY": "3", "UNIQ_KEY": "K", GANTRY_KEY: "k"}
    side.send(ScriptedPeer(), body=b"keyed and late", queue_id=1, properties=properties)
    side.flush()
    side = side.reopened()
    side.damage(SCHEDULE_TOPIC, 2)
    codes = [await side.sent(b"keyed and late", queue_id=1, properties=properties) for _ in range(2)]
    assert codes == [ResponseCode.SYSTEM_BUSY, 0]
    assert side.queues.find(SCHEDULE_TOPIC, 2).max_offset == 1


# --- transactions


async def begun(side=None, key="T1"):
    side = side or RepairSide()
    peer = ScriptedPeer()
    properties = {"TRAN_MSG": "true", "PGROUP": "pg", "UNIQ_KEY": key}
    side.send(peer, body=b"pay the order", properties=properties)
    side.flush()
    side.half = peer.answers[-1].read(SendReplyHeader)
    return side


def end(side, decision=COMMIT):
    half = side.half
    return RequestCode.END_TRANSACTION, EndTransactionHeader(
        producer_group="pg", tran_state_table_offset=half.queue_offset, commit_log_offset=int(half.msg_id[-16:], 16),
        commit_or_rollback=decision, from_transaction_check=False, msg_id=half.transaction_id, transaction_id=half.transaction_id,
    )  # fmt: skip


def again(side, other=None):
    """Open the side again; it knows its half."""
    half, side = side.half, side.reopened(other)
    side.half = half
    return side


@pytest.mark.parametrize("at", [SIZE_AT, 88], ids=["size", "body"])
async def test_the_commit_of_a_half_that_is_damaged_here_is_carried_out(at):
    side = again(await begun())
    side.damage(HALF_TOPIC, at=at)
    assert (await side.answer(*end(side))).code == 0
    assert [record.body for record in side.records("orders")] == [b"pay the order"]


async def test_a_commit_that_waits_for_a_replica_in_vain_can_be_repeated():
    side = again(await begun(), Other.IS_AWAY)
    side.damage(HALF_TOPIC)
    assert (await side.answer(*end(side))).code == RETRY_LATER
    side.other = Other.HAS_IT
    assert (await side.answer(*end(side))).code == 0
    assert [record.body for record in side.records("orders")] == [b"pay the order"]


async def state_of(side, key="T1"):
    answer = await side.answer(GantryCode.TRANSACTION_STATE, None, msgspec.json.encode(AskState(key=key)))
    return decode_body(answer.body, TransactionView).state if not answer.code else answer.code


@pytest.mark.parametrize(
    ("other", "state"), [(Other.HAS_IT, "open"), (Other.IS_AWAY, RETRY_LATER), (Other.NONE, 22)]
)
async def test_an_open_transaction_whose_half_is_damaged_here_is_found(other, state):
    side = again(await begun(), other)
    side.damage(HALF_TOPIC)
    assert await state_of(side) == state


@pytest.mark.parametrize(
    ("other", "state"),
    [(Other.HAS_IT, "committed"), (Other.IS_AWAY, RETRY_LATER), (Other.NONE, "rolledBack")],
)
async def test_a_committed_transaction_whose_records_are_damaged_here_is_not_rolled_back(other, state):
    side = await begun()
    assert (await side.answer(*end(side))).code == 0
    side = again(side, other)
    side.store.states.transactions._clear()  # as 16,384 later decisions do
    side.damage("orders")
    side.damage("RMQ_SYS_TRANS_OP_HALF_TOPIC")
    assert await state_of(side) == state


async def test_a_decision_by_key_about_a_half_that_is_damaged_here_is_carried_out():
    side = again(await begun())
    side.damage(HALF_TOPIC)
    order = msgspec.json.encode(DecideTransaction(key="T1", decision="commit", by="hand"))
    assert (await side.answer(GantryCode.DECIDE_TRANSACTION, None, order)).code == 0
    assert [record.body for record in side.records("orders")] == [b"pay the order"]


async def test_a_producer_is_asked_about_a_half_that_is_damaged_here():
    side = again(await begun())
    position = side.damage(HALF_TOPIC)
    producer = side.connect_producer()
    ask = AskProducer(
        producer_group="pg", key="T1", broker="broker-a", home="127.0.0.1:10911", offset=0, position=position,
        message_id="", message=b"",
    )  # fmt: skip
    assert (await side.answer(GantryCode.ASK_PRODUCER, None, msgspec.json.encode(ask))).code == 0
    assert producer.answers[-1].code == RequestCode.CHECK_TRANSACTION_STATE


# --- retries, leases


@pytest.mark.parametrize(
    ("other", "code"), [(Other.HAS_IT, 0), (Other.IS_AWAY, RETRY_LATER), (Other.LACKS_IT, 1), (Other.NONE, 1)]
)
async def test_a_message_that_is_damaged_here_is_sent_back(other, code):
    side = with_messages().reopened(other)
    side.set_group()
    position = side.damage("orders", offset=1)
    back = ConsumerSendBackHeader(offset=position, group="g", delay_level=1)
    assert (await side.answer(RequestCode.CONSUMER_SEND_MSG_BACK, back)).code == code
    queue = side.queues.find(SCHEDULE_TOPIC, 0)
    assert (0 if queue is None else queue.max_offset) == (code == 0)


async def dead_letters(side, count, turns=400):
    for _ in range(turns):
        found = (
            [record.body.decode() for record in side.records("%DLQ%g")]
            if side.queues.find("%DLQ%g", 0)
            else []
        )
        if len(found) >= count:
            break
        await side.wait()
    return found


async def test_a_message_without_attempts_left_that_is_damaged_here_becomes_a_dead_letter():
    side = with_messages().reopened()
    side.set_group(retry_max_times=0)
    taken = side.lease()
    side.log.first_read = type(side.log.first_read)(side.log.end)
    side.damage("orders", offset=1)
    side.nack(taken[1])
    assert await dead_letters(side, 1) == ["second message"]


async def test_a_message_without_attempts_left_waits_for_the_replica_that_has_it(monkeypatch):
    monkeypatch.setattr("broker_store.leases.message_moves.AGAIN_SECONDS", 0.01)
    side = with_messages().reopened(Other.IS_AWAY)
    side.set_group(retry_max_times=0)
    taken = side.lease()
    side.log.first_read = type(side.log.first_read)(side.log.end)
    position = side.damage("orders", offset=1)
    side.nack(taken[1])
    await side.until(lambda: side.wants.count(position) > 2)
    assert await dead_letters(side, 1, 10) == []
    side.other = Other.HAS_IT
    assert await dead_letters(side, 1) == ["second message"]


async def received(side, **fields):
    """Receive, and return the bodies."""
    answer = side.lease_raw(**fields)
    if answer is None:
        opaque = side._opaque
        await side.until(lambda: side.answer_to(opaque))
        answer = side.answer_to(opaque)
    assert answer.code == 0, answer.remark
    from leasing_side import given

    return sorted(one.body for one in given(answer))


@pytest.mark.parametrize("properties", [{}, {"TAGS": "a"}], ids=["plain", "tags"])
async def test_a_receive_delivers_all_messages_that_are_damaged_here(properties):
    side = RepairSide()
    side.set_group()
    for queue_id in 0, 1:
        for number in range(3):
            side.put(f"message {queue_id}{number}", queue_id=queue_id, **properties)
    side = side.reopened()
    for queue_id in 0, 1:
        for offset in 0, 2:
            side.damage("orders", queue_id, offset)
    filters = {"expression": "a", "expression_type": "TAG"} if properties else {}
    assert await received(side, **filters) == [f"message {at}{n}" for at in (0, 1) for n in range(3)]


@pytest.mark.parametrize("properties", [{}, {"TAGS": "a"}], ids=["plain", "tags"])
async def test_a_received_message_that_no_replica_answers_with_is_due_again_later(properties):
    side = with_messages(**properties).reopened(Other.IS_AWAY)
    side.set_group()
    side.damage("orders", offset=1)
    filters = {"expression": "a", "expression_type": "TAG"} if properties else {}
    assert await received(side, **filters) == ["first message", "third message"]
    assert await received(side, **filters) == []
    side.other = Other.HAS_IT
    side.pass_time(31)
    assert "second message" in await received(side, **filters)


@pytest.mark.parametrize("other", [Other.LACKS_IT, Other.NONE])
async def test_a_receive_leaves_out_what_no_replica_has(other):
    side = with_messages().reopened(other)
    side.set_group()
    side.damage("orders", offset=1)
    assert await received(side) == ["first message", "third message"]
    side.pass_time(31)
    assert "second message" not in await received(side)


# --- retention


@pytest.mark.parametrize(
    ("other", "cursor"), [(Other.HAS_IT, 0), (Other.IS_AWAY, 0), (Other.LACKS_IT, 1), (Other.NONE, 1)]
)
async def test_retention_counts_a_damaged_item_as_decided_only_where_no_replica_may_have_it(other, cursor):
    side = RepairSide()
    side.send(ScriptedPeer(), body=b"waits for long", properties={"UNIQ_KEY": "U", "DELAY": "18"})
    side.flush()
    side = side.reopened(other)
    side.damage(SCHEDULE_TOPIC, 17)
    care: DiskCare = side.foundation.care
    assert await care._pass_damaged(side.log.end) is bool(cursor)
    assert side.store.states.settled.of((SCHEDULE_TOPIC, 17, "")).cursor == cursor
    assert not side.damaged or other is not Other.HAS_IT


async def test_an_item_that_is_decided_while_retention_asks_for_it_keeps_its_decision():
    side = RepairSide()
    side.send(ScriptedPeer(), body=b"waits for long", properties={"UNIQ_KEY": "U", "DELAY": "18"})
    side.flush()
    side = side.reopened(Other.LACKS_IT)
    side.damage(SCHEDULE_TOPIC, 17)
    settled_table, source = side.store.states.settled, (SCHEDULE_TOPIC, 17, "")
    side.before_answer = lambda: settled_table.settle(source, 0, Decision([], "cancelled", 1))
    await side.foundation.care._pass_damaged(side.log.end)
    assert settled_table.decision(source, 0).outcome == "cancelled"
