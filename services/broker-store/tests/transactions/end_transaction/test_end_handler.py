"""END_TRANSACTION (37): each check of RocketMQ 5.3.3, what a decision leaves in the log, and that the first one counts."""

import errno

import pytest
from sending_side import ScriptedPeer
from transactions_side import BORN_MS, COMMIT, ROLLBACK, UNKNOWN, TransactionsSide

from broker_store.log.files.simulated_files import Fault
from broker_store.transactions.half_messages.recent_halves import RecentHalves
from gantry_wire.codes import ResponseCode
from gantry_wire.headers.messages import SendReplyHeader
from gantry_wire.messages.properties import tags_code
from gantry_wire.names import HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from gantry_wire.records.units import CONSUME_QUEUE_UNIT

pytestmark = pytest.mark.anyio


@pytest.fixture
async def side():
    return TransactionsSide()


@pytest.fixture
def peer():
    return ScriptedPeer()


async def test_a_commit_brings_the_message_to_its_queue_and_an_op_message_behind_it(side, peer):
    half = await side.begin(peer, body=b"pay", TAGS="a", KEYS="o-1")
    answer = await side.end(peer, half)
    assert answer.code == 0
    (record,) = side.records("orders", 2)
    assert (record.body, record.sys_flag, record.queue_offset) == (b"pay", 0x8, 0)
    assert record.prepared_position == int(half.msg_id[-16:], 16)
    assert (record.born_timestamp, record.born_address) == (BORN_MS, ("127.0.0.1", 40000))
    unit = side.queues.find("orders", 2).read(0, 1)
    assert int.from_bytes(unit[12:], "big") == tags_code("a")
    (op,) = side.records(OP_HALF_TOPIC)
    assert (op.body, op.queue_id, op.position) == (b"0", 0, record.position + record.size)


async def test_a_read_of_the_half_that_fails_once_does_not_fail_the_decision(side, peer, monkeypatch):
    monkeypatch.setattr(RecentHalves, "take", lambda *_: None)  # it is read from the log
    half = await side.begin(peer, body=b"pay")
    side.files.faults.append(Fault("pread", errno.EIO, "commitlog"))
    assert (await side.end(peer, half)).code == 0
    assert not side.files.faults[0].count
    assert [record.body for record in side.records("orders", 2)] == [b"pay"]


async def test_the_message_keeps_the_halfs_content_byte_for_byte(side, peer):
    half = await side.begin(peer, x="1")
    await side.end(peer, half)
    (record,) = side.records("orders", 2)
    raw = side.records(HALF_TOPIC)[0].properties
    assert record.properties == raw + b"__GANTRY_SETTLED\x01RMQ_SYS_TRANS_HALF_TOPIC:0:0::1/2\x02"


async def test_the_op_message_is_rocketmqs(side, peer):
    half = await side.begin(peer)
    await side.begin(peer, "U2")
    await side.end(peer, half)
    (op,) = side.records(OP_HALF_TOPIC)
    named = op.property_map()
    assert named["TAGS"] == "d"
    assert op.sys_flag == 0
    unit = side.queues.find(OP_HALF_TOPIC, 0).read(0, 1)
    assert int.from_bytes(unit[12:], "big") == 100, "the hash of d, by which RocketMQ selects"


async def test_a_rollback_leaves_the_op_message_alone(side, peer):
    half = await side.begin(peer)
    assert (await side.end(peer, half, ROLLBACK)).code == 0
    assert side.records("orders", 2) == []
    assert side.ops() == [b"0"]


async def test_one_way_decisions_count_and_are_not_answered(side, peer):
    half = await side.begin(peer)
    assert await side.end(peer, half, oneway=True) is None
    assert len(side.records("orders", 2)) == 1


@pytest.mark.parametrize("decision", [UNKNOWN, 4, 99, -1])
@pytest.mark.parametrize("from_check", [True, False])
async def test_neither_commit_nor_rollback_is_ignored(side, peer, decision, from_check):
    half = await side.begin(peer)
    assert await side.end(peer, half, decision, from_transaction_check=from_check) is None
    assert side.ops() == []


@pytest.mark.parametrize("decision", [COMMIT, ROLLBACK])
@pytest.mark.parametrize(
    ("changes", "remark"),
    [
        ({"producer_group": "other"}, "The producer group wrong"),
        ({"tran_state_table_offset": 5}, "The transaction state table offset wrong"),
        ({"commit_log_offset": 77}, "Find prepared transaction message failed"),
        ({"commit_log_offset": 1 << 50}, "Find prepared transaction message failed"),
        ({"commit_log_offset": -1}, "Find prepared transaction message failed"),
        ({"msg_id": "other", "transaction_id": "other"}, "Find prepared transaction message failed"),
    ],
)
async def test_each_mismatch_answers_1_with_rocketmqs_remark(side, peer, decision, changes, remark):
    half = await side.begin(peer)
    answer = await side.end(peer, half, decision, **changes)
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, remark)
    assert side.ops() == []
    assert side.records("orders", 2) == []


async def test_a_message_that_is_no_half_is_not_committed(side, peer):
    """A plain message with PGROUP, exactly at the position in the request: RocketMQ would deliver it twice."""
    side.send(peer, "orders", b"plain", 2, properties={"PGROUP": "pg", "UNIQ_KEY": "U9"})
    await side.settled()
    await side.begin(peer)
    plain = side.records("orders", 2)[0]
    half = await side.begin(peer, "U2")
    answer = await side.end(
        peer,
        half,
        tran_state_table_offset=0,
        commit_log_offset=plain.position,
        msg_id="U9",
        transaction_id="U9",
    )
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert len(side.records("orders", 2)) == 1


async def test_after_the_immunity_only_an_answer_to_a_check_counts(side, peer):
    half = await side.begin(peer, CHECK_IMMUNITY_TIME_IN_SECONDS="30")
    side.pass_time(31)
    answer = await side.end(peer, half)
    assert answer.code == ResponseCode.ILLEGAL_OPERATION
    assert side.records("orders", 2) == []
    assert (await side.end(peer, half, from_transaction_check=True)).code == 0
    assert len(side.records("orders", 2)) == 1


async def test_an_immunity_below_the_time_out_counts_as_that(side, peer):
    half = await side.begin(peer, CHECK_IMMUNITY_TIME_IN_SECONDS="1")
    side.pass_time(3)
    assert (await side.end(peer, half)).code == 0


# The first decision counts


@pytest.mark.parametrize("first", [COMMIT, ROLLBACK])
@pytest.mark.parametrize("restart", [False, True])
async def test_the_same_decision_again_changes_nothing_and_the_opposite_is_refused(
    side, peer, first, restart
):
    half = await side.begin(peer)
    await side.end(peer, half, first)
    if restart:
        side = side.reopen()
    count = len(side.records("orders", 2))
    assert (await side.end(peer, half, first)).code == 0
    answer = await side.end(peer, half, COMMIT if first == ROLLBACK else ROLLBACK)
    assert answer.code == ResponseCode.ILLEGAL_OPERATION
    assert answer.ext["gantryCode"] == "TRANSACTION_DECIDED"
    assert len(side.records("orders", 2)) == count
    assert len(side.ops()) == 1


async def test_of_two_decisions_in_one_turn_the_first_counts(side, peer):
    half = await side.begin(peer)
    for decision in (ROLLBACK, COMMIT, COMMIT):
        side.ask(peer, 37, side.end_header(half, decision))
    await side.settled()
    assert [answer.code for answer in peer.answers[-3:]] == [0, 604, 604]
    assert side.records("orders", 2) == []
    assert side.ops() == [b"0"]


async def test_decisions_of_one_turn_are_one_write(side, peer):
    halves = [await side.begin(peer, f"U{n}") for n in range(5)]
    batches = side.appends.batches
    for half in halves:
        side.ask(peer, 37, side.end_header(half), oneway=True)
    side.flush()
    assert side.appends.batches == batches + 1
    assert len(side.records("orders", 2)) == 5


# Copies


async def test_a_decision_that_names_an_older_copy_is_carried_out_on_the_newest(side, peer):
    half = await side.begin(peer)
    copy = await side.check(peer, half.queue_offset)
    copy = await side.check(peer, copy, 2)
    assert (await side.end(peer, half)).code == 0
    (record,) = side.records("orders", 2)
    assert record.prepared_position == side.records(HALF_TOPIC)[copy].position
    assert (await side.end(peer, half, ROLLBACK)).code == ResponseCode.ILLEGAL_OPERATION


async def test_a_decision_after_the_checks_names_the_copy_it_was_asked_about(side, peer):
    half = await side.begin(peer)
    offset = await side.check(peer, half.queue_offset)
    copy = side.records(HALF_TOPIC)[offset]
    answer = await side.end(
        peer,
        half,
        tran_state_table_offset=offset,
        commit_log_offset=copy.position,
        from_transaction_check=True,
    )
    assert answer.code == 0
    assert (await side.end(peer, half)).code == 0, "the older copy, the same decision"
    assert len(side.records("orders", 2)) == 1


async def test_an_older_copy_is_enough_after_a_restart(side, peer):
    half = await side.begin(peer)
    await side.check(peer, half.queue_offset)
    side = side.reopen()
    assert (await side.end(peer, half)).code == 0
    assert len(side.records("orders", 2)) == 1


async def test_the_producer_of_a_parked_half_may_still_decide(side, peer):
    half = await side.begin(peer)
    await side.park(peer, half.queue_offset)
    assert (await side.end(peer, half)).code == 0
    assert len(side.records("orders", 2)) == 1
    assert (await side.end(peer, half, ROLLBACK)).code == ResponseCode.ILLEGAL_OPERATION


# Delays, and targets that are gone


async def test_a_delay_level_begins_at_the_commit(side, peer):
    half = await side.begin(peer, DELAY="3")
    side.pass_time(60)
    await side.end(peer, half)
    assert side.records("orders", 2) == []
    (record,) = side.records(SCHEDULE_TOPIC, 2)
    unit = side.queues.find(SCHEDULE_TOPIC, 2).read(0, 1)
    assert int.from_bytes(unit[12:], "big") == record.store_timestamp + 10_000
    assert record.property_map()["REAL_TOPIC"] == "orders"
    assert record.sys_flag == 0x8


async def test_an_instant_goes_to_the_timer(side, peer):
    half = await side.begin(peer, TIMER_DELAY_MS="1500")
    side.pass_time(10)
    await side.end(peer, half)
    (record,) = side.records(TIMER_TOPIC)
    named = record.property_map()
    assert int(named["TIMER_OUT_MS"]) == int(side.wall_s * 1000) + 1500
    assert (named["REAL_TOPIC"], named["REAL_QID"]) == ("orders", "2")
    assert (await side.end(peer, half, ROLLBACK)).code == ResponseCode.ILLEGAL_OPERATION


async def test_an_instant_that_has_passed_is_delivered_at_once(side, peer):
    half = await side.begin(peer, TIMER_DELIVER_MS=str(int(side.wall_s * 1000) + 5_000))
    side.pass_time(10)
    await side.end(peer, half)
    assert len(side.records("orders", 2)) == 1


@pytest.mark.parametrize("is_checked", [False, True])
async def test_a_cancellation_committed_after_its_instant_ends_its_transaction(side, peer, is_checked):
    instant = int(side.wall_s * 1000) + 5_000
    half = await side.begin(peer, TIMER_DELIVER_MS=str(instant), TIMER_DEL_UNIQKEY="orders+U9")
    if is_checked:
        await side.check(peer, half.queue_offset)
    side.pass_time(10)
    assert (await side.end(peer, half)).code == 0
    (record,) = side.records(TIMER_TOPIC)
    named = record.property_map()
    assert (named["TIMER_OUT_MS"], named["TIMER_DEL_UNIQKEY"]) == (str(instant), "orders+U9")
    assert side.records("orders", 2) == [], "no consumer gets a cancellation"
    assert (await side.end(peer, half)).code == 0
    assert len(side.records(TIMER_TOPIC)) == 1
    assert (await side.end(peer, half, ROLLBACK)).code == ResponseCode.ILLEGAL_OPERATION


async def test_a_commit_into_a_deleted_topic_leaves_the_transaction_open(side, peer):
    half = await side.begin(peer)
    side.topics.delete("orders")
    answer = await side.end(peer, half)
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    assert side.ops() == []
    assert (await side.end(peer, half, ROLLBACK)).code == 0


# Crashes


@pytest.mark.parametrize("decision", [COMMIT, ROLLBACK])
async def test_a_decision_that_was_answered_survives_a_kill(side, peer, decision):
    half = await side.begin(peer)
    await side.begin(peer, "U2")
    await side.end(peer, half, decision)
    again = side.reopen()
    assert len(again.records("orders", 2)) == (decision == COMMIT)
    assert again.ops() == [b"0"]
    table = again.sending.settling.table
    assert [table.is_settled((HALF_TOPIC, 0, ""), n) for n in range(2)] == [True, False]


async def test_a_keyed_commit_does_not_count_as_another_send_with_the_key(side, peer):
    half = await side.begin(peer, __GANTRY_KEY="k")
    await side.end(peer, half)
    again = side.reopen()
    for one in (side, again):
        repeat = await one.begin(peer, "U7", __GANTRY_KEY="k")
        assert (repeat.transaction_id, repeat.duplicate) == ("U1", True)
        assert len(one.records(HALF_TOPIC)) == 1


@pytest.mark.parametrize("settings", [{"flush": "async"}, {}])
async def test_a_decision_that_overtakes_the_flush_of_its_half_waits_for_it(peer, settings):
    """WAIT=false or asynchronous flush: the half is acknowledged before any reader sees it."""
    side = TransactionsSide(**settings)
    named = {"TRAN_MSG": "true", "PGROUP": "pg", "UNIQ_KEY": "U1", "WAIT": "false"}
    side.send(peer, "orders", b"pay", 2, properties=named)
    side.end_turn()
    half = peer.answers[-1].read(SendReplyHeader)
    assert side.records(HALF_TOPIC) == []
    side.ask(peer, 37, side.end_header(half))
    side.ask(peer, 37, side.end_header(half, producer_group="other"))
    side.end_turn()
    assert len(peer.answers) == 1
    await side.settled()
    assert [answer.code for answer in peer.answers[1:]] in ([0, 1], [1, 0])
    assert len(side.records("orders", 2)) == 1


async def test_a_committed_message_whose_level_has_a_sign_waits_as_long_as_the_level_says(side, peer):
    half = await side.begin(peer, DELAY="+5")
    await side.end(peer, half)
    unit = side.queues.find("SCHEDULE_TOPIC_XXXX", 4).read(0, 1)
    assert int.from_bytes(unit[12:], "big") == side.clock.now_ms() + 60_000


async def test_a_committed_delay_is_due_when_it_was_under_another_list_of_levels_too():
    side, peer = TransactionsSide(), ScriptedPeer()
    half = await side.begin(peer, "K", DELAY="18")
    assert (await side.end(peer, half)).code == 0

    def due_ms(of):
        return CONSUME_QUEUE_UNIT.unpack(of.queues.find("SCHEDULE_TOPIC_XXXX", 17).read(0, 1))[2]

    due = due_ms(side)
    assert due == side.clock.now_ms() + 7_200_000
    assert due_ms(TransactionsSide(side.files.killed(), side.wall_s + 1, delay_levels="1s 5s")) == due


@pytest.mark.parametrize("way", ["end", "by id"])
async def test_an_accepted_delay_can_be_committed_under_a_shorter_horizon(way):
    side, peer = TransactionsSide(), ScriptedPeer()
    half = await side.begin(peer, "K", TIMER_DELAY_SEC="864000")
    side = TransactionsSide(side.files.killed(), side.wall_s + 1, delay_horizon_seconds=3600)
    if way == "end":
        answer = await side.end(peer, half)
        assert answer.code == 0, answer.remark
    else:
        assert (await side.ask_json(peer, 9021, {"key": "K", "decision": "commit"}))[0] == 0
    (waiting,) = side.records("rmq_sys_wheel_timer")
    assert int(waiting.property_map()["TIMER_OUT_MS"]) == side.clock.now_ms() + 864_000_000
