"""Group commit: when a message is answered and visible, and the effects of load and disk."""

import errno

import pytest
from sending_side import ScriptedPeer, SendingSide

from broker_store.log.files.simulated_files import Fault
from gantry_wire.codes import ResponseCode
from gantry_wire.headers.messages import SendReplyHeader

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


async def test_append_is_answered_only_after_fsync(side, peer):
    opaque = side.send(peer)
    side.end_turn()
    assert peer.answers == []
    assert side.wishes == 1
    side.flush()
    assert [answer.opaque for answer in peer.answers] == [opaque]
    assert reply(peer).durability == "fsync"


async def test_under_sync_flush_nothing_is_readable_before_it_is_durable(side, peer):
    side.send(peer)
    side.end_turn()
    assert side.records() == []
    assert side.log.visible_end == 0
    side.flush()
    assert [record.body for record in side.records()] == [b"hi"]


async def test_under_async_flush_the_answer_follows_the_write_and_says_so(peer):
    side = SendingSide(flush="async")
    side.send(peer)
    side.end_turn()
    assert reply(peer).durability == "written"
    assert len(side.records()) == 1
    assert side.log.durable_end == 0


async def test_wait_false_is_answered_early_but_seen_only_after_the_flush(side, peer):
    side.send(peer, properties={"UNIQ_KEY": "U1", "WAIT": "false"})
    side.end_turn()
    assert reply(peer).durability == "written"
    assert side.records() == []
    side.flush()
    assert len(side.records()) == 1
    assert len(peer.answers) == 1


async def test_a_topic_may_ask_for_another_flush_than_the_broker(side, peer):
    side.topics.ensure("fast", 1).attributes = {"gantry.flush": "async"}
    side.send(peer, "fast")
    side.send(peer, "slow")
    side.end_turn()
    assert [answer.read(SendReplyHeader).durability for answer in peer.answers] == ["written"]
    side.flush()
    assert [answer.read(SendReplyHeader).durability for answer in peer.answers] == ["written", "fsync"]


async def test_messages_of_one_turn_are_one_write_and_answered_in_order(side, peer):
    opaques = [side.send(peer, body=b"%d" % number) for number in range(50)]
    writes = sum(name == "pwrite" for name, _ in side.files.trace)
    side.flush()
    in_log = [path for name, path in side.files.trace if name == "pwrite" and "commitlog" in path]
    assert len(in_log) == 1
    assert writes <= sum(name == "pwrite" for name, _ in side.files.trace)
    assert [answer.opaque for answer in peer.answers] == opaques
    assert [answer.read(SendReplyHeader).queue_offset for answer in peer.answers] == list(range(50))


async def test_more_than_the_bound_under_way_answers_overload(peer):
    side = SendingSide(send_pending_max=3)
    side.topics.ensure("orders", 4)
    side.flush()
    for _ in range(5):
        side.send(peer)
    assert [answer.code for answer in peer.answers] == [ResponseCode.SYSTEM_BUSY] * 2
    assert peer.answers[0].remark.startswith("[OVERLOAD]")
    side.flush()
    side.send(peer)
    side.flush()
    assert [answer.code for answer in peer.answers] == [2, 2, 0, 0, 0, 0]


async def test_a_send_that_waited_unwritten_for_200_ms_is_refused_and_not_stored(side, peer):
    side.send(peer)
    side.pass_time(0.201)
    side.flush()
    assert peer.answers[0].code == ResponseCode.SYSTEM_BUSY
    assert peer.answers[0].remark.startswith("[TIMEOUT_CLEAN_QUEUE]broker busy")
    assert side.records() == []
    assert side.classes["send"].in_flight == 0


async def test_the_head_wait_of_sends_is_that_of_the_oldest_one_unanswered(side, peer):
    sends = side.classes["send"]
    assert sends.head_wait_ms(0) == 0
    side.send(peer)
    side.pass_time(0.1)
    assert sends.head_wait_ms(0) == 100
    side.end_turn()
    side.pass_time(0.1)
    side.send(peer)
    side.pass_time(0.1)
    assert sends.head_wait_ms(0) == 300
    side.flush()
    assert sends.head_wait_ms(0) == 0


async def test_a_flush_that_takes_too_long_answers_10_with_a_full_header_and_becomes_visible_later(
    side, peer
):
    side.send(peer)
    side.end_turn()
    side.pass_time(5.1)
    side.appends.answer_late()
    assert peer.answers[0].code == ResponseCode.FLUSH_DISK_TIMEOUT
    assert peer.answers[0].read(SendReplyHeader).queue_offset == 0
    side.flush()
    assert len(peer.answers) == 1
    assert len(side.records()) == 1


async def test_a_full_disk_refuses_the_batch_and_gives_its_offsets_back(side, peer):
    side.send(peer)
    side.flush()
    side.files.faults.append(Fault("pwrite", errno.ENOSPC, "commitlog"))
    side.send(peer, body=b"lost")
    side.send(peer, body=b"lost too")
    side.flush()
    assert [answer.code for answer in peer.answers] == [0, 14, 14]
    assert peer.answers[1].ext["gantryCode"] == "DISK_FULL"
    side.send(peer)
    assert peer.answers[-1].ext["gantryCode"] == "DISK_FULL"
    side.log.mark_disk_full(full=False)
    side.send(peer, body=b"again")
    side.flush()
    assert reply(peer).queue_offset == 1
    assert [record.body for record in side.records()] == [b"hi", b"again"]


async def test_after_a_failed_fsync_nothing_is_acknowledged_any_more(side, peer):
    from broker_store.log.errors import LogStopped

    side.send(peer)
    side.end_turn()
    side.files.faults.append(Fault("sync", errno.EIO, "commitlog"))
    with pytest.raises(LogStopped) as stopped:
        side.log.sync()
    side.appends.failed(stopped.value)
    assert peer.answers[0].code == ResponseCode.SYSTEM_ERROR
    assert peer.answers[0].ext["gantryCode"] == "RESULT_UNKNOWN"
    assert side.records() == []
    side.send(peer)
    assert peer.answers[1].code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert peer.answers[1].ext["gantryCode"] == "STORE_STOPPED"


async def test_eio_from_the_write_leaves_the_result_unknown(side, peer):
    side.files.faults.append(Fault("pwrite", errno.EIO, "commitlog"))
    side.send(peer)
    side.end_turn()
    assert peer.answers[0].ext["gantryCode"] == "RESULT_UNKNOWN"


async def test_a_batch_larger_than_a_segment_is_refused_alone(peer):
    side = SendingSide(segment_bytes=1024 * 1024)
    side.send(peer, body=b"before")
    side.send(peer, body=b"x" * (2 * 1024 * 1024))
    side.send(peer, body=b"after")
    side.flush()
    assert sorted(answer.code for answer in peer.answers) == [0, 0, 13]
    assert [record.body for record in side.records()] == [b"before", b"after"]


async def test_switching_a_topic_to_async_never_lets_a_message_overtake(side, peer):
    side.topics.ensure("orders", 1)
    side.send(peer, body=b"first")
    side.end_turn()
    side.topics.find("orders").attributes = {"gantry.flush": "async"}
    side.sending.targets.forget("orders")
    side.send(peer, body=b"second")
    side.end_turn()
    assert side.records() == []
    side.flush()
    assert [record.body for record in side.records()] == [b"first", b"second"]
    side.send(peer, body=b"third")
    side.end_turn()
    assert reply(peer).durability == "written"


async def test_messages_that_arrive_during_a_flush_are_written_once_when_it_ends(side, peer):
    side.send(peer, body=b"first")
    side.end_turn()
    written_end = side.log.written_end
    for body in (b"second", b"third"):
        side.send(peer, body=body)
        side.end_turn()
    assert side.log.written_end == written_end
    side.appends.synced(side.log.sync())
    assert len(peer.answers) == 1
    side.end_turn()
    assert (side.appends.batches, side.wishes) == (2, 2)
    assert len(peer.answers) == 1
    side.appends.synced(side.log.sync())
    assert [answer.read(SendReplyHeader).queue_offset for answer in peer.answers] == [0, 1, 2]
    assert [record.body for record in side.records()] == [b"first", b"second", b"third"]


async def test_asynchronous_messages_do_not_wait_for_a_flush(side, peer):
    side.topics.ensure("fast", 1).attributes = {"gantry.flush": "async"}
    side.send(peer, "slow")
    side.end_turn()
    side.send(peer, "slow")
    side.send(peer, "fast")
    side.end_turn()
    assert [answer.read(SendReplyHeader).durability for answer in peer.answers] == ["written"]
    side.flush()
    assert len(peer.answers) == 3


async def test_a_late_answer_of_a_store_without_replicas_never_blames_them(side, peer):
    """The flush may have ended while its report still waits for the loop."""
    side.send(peer)
    side.end_turn()
    side.log.sync()
    side.pass_time(5.1)
    side.appends.answer_late()
    assert [answer.code for answer in peer.answers] == [ResponseCode.FLUSH_DISK_TIMEOUT]


async def test_a_flush_that_hangs_holds_nothing_back_and_late_ones_are_answered(side, peer):
    side.send(peer, body=b"first")
    side.end_turn()
    side.send(peer, body=b"held")
    side.end_turn()
    side.pass_time(0.1)
    side.appends.answer_late()
    assert side.appends.batches == 2
    side.pass_time(5.1)
    side.appends.answer_late()
    assert [answer.code for answer in peer.answers] == [ResponseCode.FLUSH_DISK_TIMEOUT] * 2
    side.flush()
    assert [record.body for record in side.records()] == [b"first", b"held"]


async def test_messages_that_waited_during_a_failed_flush_are_surely_not_stored(side, peer):
    from broker_store.log.errors import LogStopped

    side.send(peer)
    side.end_turn()
    side.send(peer)
    side.end_turn()
    side.files.faults.append(Fault("sync", errno.EIO, "commitlog"))
    with pytest.raises(LogStopped) as stopped:
        side.log.sync()
    side.appends.failed(stopped.value)
    assert [answer.ext["gantryCode"] for answer in peer.answers] == ["RESULT_UNKNOWN", "STORE_STOPPED"]
    assert side.classes["send"].in_flight == 0


async def test_after_a_flush_of_many_the_next_one_waits_for_them_and_a_timer_ends_that(side, peer):
    timers = []
    side.appends._call_later = lambda _seconds, callback: timers.append(callback)
    for _ in range(20):
        side.send(peer)
    side.end_turn()
    side.pass_time(0.001)
    side.appends.synced(side.log.sync())
    assert len(peer.answers) == 20
    side.send(peer)
    side.end_turn()
    assert side.appends.batches == 1
    assert len(timers) == 1
    side.pass_time(0.001)
    timers.pop()()
    assert side.appends.batches == 2
    side.appends.synced(side.log.sync())
    assert len(peer.answers) == 21
    assert side.appends.is_idle


async def test_a_topic_that_was_changed_during_a_flush_is_soon_known_again(side, peer):
    side.topics.ensure("orders", 1)
    side.send(peer)
    side.end_turn()
    side.sending.targets.forget("orders")
    side.send(peer)
    side.flush()
    assert "orders" in side.sending.targets.known
    side.send(peer)
    side.end_turn()
    side.topics.find("orders").attributes = {"gantry.flush": "async"}
    side.sending.targets.forget("orders")
    side.flush()
    side.send(peer)
    assert "orders" in side.sending.targets.known


async def test_a_retry_topic_that_becomes_async_lets_no_internal_message_overtake(side, peer):
    side.sending.internal.append("%DLQ%g", 0, b"first")
    side.end_turn()
    side.topics.find("%DLQ%g").attributes = {"gantry.flush": "async"}
    side.sending.targets.forget("%DLQ%g")
    side.sending.internal.append("%DLQ%g", 0, b"second")
    side.end_turn()
    assert side.queues.find("%DLQ%g", 0).max_offset == 0
    side.flush()
    assert [record.body for record in side.records("%DLQ%g")] == [b"first", b"second"]


async def test_an_internal_message_that_no_record_can_hold_harms_no_send(side, peer):
    side.sending.internal.append("RMQ_SYS_TRACE_TOPIC", 0, b"trace", keys="k" * 33_000)
    side.send(peer)
    side.flush()
    assert side.sending.internal.dropped == 1
    assert [answer.code for answer in peer.answers] == [0]


async def test_a_segment_removed_by_another_program_is_detected_at_the_next_flush_or_50_ms_later(side, peer):
    side.send(peer)
    side.flush()
    side.files.remove(side.log.segments[0].path)
    side.pass_time(0.049)
    side.send(peer)
    side.flush()
    side.pass_time(0.001)
    side.send(peer)
    side.flush()
    assert [answer.code for answer in peer.answers] == [0, 0, ResponseCode.SYSTEM_ERROR]
    side.send(peer)
    side.end_turn()
    assert peer.answers[-1].code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert "was removed, moved or replaced" in peer.answers[-1].remark
