import errno

import msgspec
import pytest
from sending_side import ScriptedPeer, SendingSide

from broker_store.log.files.simulated_files import Fault
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.headers.messages import SendReplyHeader

pytestmark = pytest.mark.anyio


@pytest.fixture
async def side():
    return SendingSide()


@pytest.fixture
def peer():
    return ScriptedPeer()


def keyed(key: str, unique: str = "U", **more: str) -> dict[str, str]:
    return {"UNIQ_KEY": unique, "__GANTRY_KEY": key, **more}


def answers(peer):
    return [answer.read(SendReplyHeader) for answer in peer.answers if not answer.code]


async def test_a_repeat_is_answered_with_the_first_messages_position(side, peer):
    side.send(peer, properties=keyed("k", "U1"))
    side.flush()
    side.send(peer, properties=keyed("k", "U2"))
    side.flush()
    first, second = answers(peer)
    assert second.duplicate
    assert second.durability == "fsync"
    assert (second.msg_id, second.queue_offset, second.queue_id) == (first.msg_id, 0, 0)
    assert second.transaction_id == "U1"
    assert len(side.records()) == 1


async def test_a_repeat_of_an_unflushed_message_waits_for_that_flush(side, peer):
    side.send(peer, properties=keyed("k", "U1"))
    side.end_turn()
    side.send(peer, properties=keyed("k", "U2"))
    side.end_turn()
    assert peer.answers == []
    side.flush()
    first, second = answers(peer)
    assert (second.duplicate, second.msg_id, second.transaction_id) == (True, first.msg_id, "U1")


async def test_a_repeat_whose_flush_is_late_gets_an_answer_that_says_so(side, peer):
    side.send(peer, properties=keyed("old", "U0"))
    side.flush()
    side.send(peer, properties=keyed("k", "U1"))
    side.end_turn()
    side.send(peer, properties=keyed("k", "U2"))
    side.send(peer, properties=keyed("old", "U3"))
    side.end_turn()
    side.pass_time(5.1)
    side.appends.answer_late()
    late = peer.answers[1:]
    assert [answer.code for answer in late] == [
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.FLUSH_DISK_TIMEOUT,
    ]
    assert late[1].fields["gantryCode"] == "FIRST_UNKNOWN"
    assert late[2].read(SendReplyHeader).msg_id == answers(peer)[0].msg_id
    assert late[2].read(SendReplyHeader).durability == "written"
    side.flush()
    assert len(peer.answers) == 4
    side.send(peer, properties=keyed("k", "U4"))
    side.flush()
    assert answers(peer)[-1].duplicate
    assert len(side.records()) == 2


@pytest.mark.parametrize("per_item", [False, True])
async def test_a_batch_with_a_repeat_whose_flush_is_late_is_to_be_sent_again(side, peer, per_item):
    side.send(peer, properties=keyed("a"))
    side.end_turn()
    side.send_batch(peer, [(b"hi", keyed("a")), (b"new", keyed("b"))], per_item=per_item)
    side.end_turn()
    side.pass_time(5.1)
    side.appends.answer_late()
    late = peer.answers[1]
    if per_item:
        assert late.code == ResponseCode.FLUSH_DISK_TIMEOUT
        items = msgspec.json.decode(late.body)
        assert [item["code"] for item in items] == [ResponseCode.SYSTEM_BUSY, 0]
    else:
        assert late.code == ResponseCode.SYSTEM_BUSY
        assert late.fields["gantryCode"] == "FIRST_UNKNOWN"
    side.flush()
    side.send_batch(peer, [(b"hi", keyed("a")), (b"new", keyed("b"))], per_item=per_item)
    side.flush()
    assert peer.answers[-1].code == 0
    assert len(side.records()) == 2


async def test_a_repeat_in_the_same_turn_is_stored_once(side, peer):
    side.send(peer, properties=keyed("k"))
    side.send(peer, properties=keyed("k"))
    side.flush()
    assert [answer.duplicate for answer in answers(peer)] == [None, True]
    assert len(side.records()) == 1


async def test_other_content_under_a_key_is_a_conflict(side, peer):
    side.send(peer, properties=keyed("k"))
    side.send(peer, body=b"other", properties=keyed("k"))
    side.flush()
    side.send(peer, properties=keyed("k", TAGS="other"))
    assert [answer.code for answer in peer.answers] == [13, 0, 13]
    assert {answer.ext["gantryCode"] for answer in peer.answers if answer.code} == {"IDEMPOTENCY_CONFLICT"}


async def test_keys_belong_to_their_topic(side, peer):
    side.send(peer, "a", properties=keyed("k"))
    side.send(peer, "b", body=b"other", properties=keyed("k"))
    side.flush()
    assert [answer.code for answer in peer.answers] == [0, 0]


async def test_a_key_is_new_again_after_the_window(side, peer):
    side.send(peer, properties=keyed("k"))
    side.flush()
    side.pass_time(601)
    side.send(peer, properties=keyed("k"))
    side.flush()
    assert len(side.records()) == 2


async def test_a_key_whose_message_was_not_stored_is_free_again(side, peer):
    side.files.faults.append(Fault("pwrite", errno.ENOSPC, "commitlog"))
    side.send(peer, properties=keyed("k"))
    side.send(peer, properties=keyed("k"))
    side.flush()
    assert [answer.code for answer in peer.answers] == [14, 14]
    side.log.mark_disk_full(full=False)
    side.send(peer, properties=keyed("k"))
    side.flush()
    assert answers(peer)[-1].duplicate is None
    assert len(side.records()) == 1


async def test_a_key_refused_for_load_is_free_again(peer):
    side = SendingSide(send_pending_max=1)
    side.send(peer)
    side.send(peer, properties=keyed("k"))
    assert peer.answers[0].code == ResponseCode.SYSTEM_BUSY
    side.flush()
    side.send(peer, properties=keyed("k"))
    side.flush()
    assert answers(peer)[-1].duplicate is None


async def test_under_async_flush_repeats_work_the_same(peer):
    side = SendingSide(flush="async")
    side.send(peer, properties=keyed("k", "U1"))
    side.send(peer, properties=keyed("k", "U2"))
    side.end_turn()
    side.send(peer, properties=keyed("k", "U3"))
    side.end_turn()
    assert [(answer.duplicate, answer.transaction_id) for answer in answers(peer)] == [
        (None, "U1"),
        (True, "U1"),
        (True, "U1"),
    ]


async def test_a_batch_stores_the_new_ones_and_answers_each(side, peer):
    side.send(peer, properties=keyed("a", "A"))
    side.send(peer, body=b"x", properties=keyed("c", "C"))
    side.flush()
    side.send_batch(
        peer,
        [(b"hi", keyed("a", "A2")), (b"new", keyed("b", "B")), (b"hi", keyed("c", "C2")), (b"plain", {})],
        per_item=True,
    )
    side.flush()
    items = msgspec.json.decode(peer.answers[-1].body)
    assert [(item["code"], item["duplicate"], item["queueOffset"]) for item in items] == [
        (0, True, 0),
        (0, False, 2),
        (13, False, -1),
        (0, False, 3),
    ]
    places = [answer.msg_id for answer in answers(peer)[:1]]
    ids = peer.answers[-1].read(SendReplyHeader).msg_id.split(",")
    assert ids == [places[0], ids[1], "", ids[3]]  # a refused message has no id
    assert len(ids[1]) == len(ids[3]) == len(places[0])
    assert items[0]["uniqKey"] == "A"
    assert items[2]["gantryCode"] == "IDEMPOTENCY_CONFLICT"
    assert [record.body for record in side.records()] == [b"hi", b"x", b"new", b"plain"]


async def test_a_batch_of_repeats_only_stores_nothing_and_answers_after_their_flush(side, peer):
    side.send_batch(peer, [(b"1", keyed("a")), (b"2", keyed("b"))], per_item=True)
    side.end_turn()
    side.send_batch(peer, [(b"1", keyed("a")), (b"2", keyed("b"))], per_item=True)
    side.send_batch(peer, [(b"1", keyed("a")), (b"2", keyed("b"))])
    side.end_turn()
    assert peer.answers == []
    side.flush()
    items = msgspec.json.decode(peer.answers[1].body)
    assert [(item["duplicate"], item["queueOffset"]) for item in items] == [(True, 0), (True, 1)]
    assert answers(peer)[2].msg_id == answers(peer)[0].msg_id
    assert len(side.records()) == 2


async def test_without_per_item_a_conflict_refuses_the_whole_batch(side, peer):
    side.send(peer, properties=keyed("a"))
    side.flush()
    side.send_batch(peer, [(b"1", keyed("new")), (b"2", keyed("a"))])
    assert peer.answers[-1].code == ResponseCode.MESSAGE_ILLEGAL
    side.send(peer, body=b"9", properties=keyed("new"))
    side.flush()
    assert answers(peer)[-1].duplicate is None


async def test_the_same_key_twice_in_one_batch_is_stored_once(side, peer):
    side.send_batch(peer, [(b"1", keyed("a")), (b"1", keyed("a"))], per_item=True)
    side.flush()
    items = msgspec.json.decode(peer.answers[0].body)
    assert [item["duplicate"] for item in items] == [False, True]
    assert [item["queueOffset"] for item in items] == [0, 0]
    assert len(side.records()) == 1


@pytest.mark.parametrize("body", [b"hi", b"other"])
async def test_a_key_of_a_deleted_topic_is_new_again(side, peer, body):
    side.send(peer, properties=keyed("k"))
    side.flush()
    side.ask(peer, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})
    side.flush()
    side.send(peer, body=body, properties=keyed("k"))
    side.send(peer, body=body, properties=keyed("k"))
    side.flush()
    stored, repeat = answers(peer)[-2:]
    assert (stored.duplicate, stored.queue_offset) == (None, 1)
    assert (repeat.duplicate, repeat.queue_offset) == (True, 1)
    assert [record.body for record in side.records()] == [body]


@pytest.mark.parametrize("rebuild", [False, True])
async def test_a_key_of_a_deleted_topic_is_new_after_a_restart_too(side, peer, rebuild):
    side.send(peer, properties=keyed("k"))
    side.flush()
    side.ask(peer, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})
    side.flush()
    side.send(peer, body=b"another", properties=keyed("later"))
    side.flush()
    if rebuild:
        side.files.remove("/store/gantry/queues.json")
    again = side.reopen()
    again.send(peer, properties=keyed("k"))
    again.send(peer, body=b"another", properties=keyed("later"))
    again.flush()
    assert [(answer.duplicate, answer.queue_offset) for answer in answers(peer)[-2:]] == [
        (None, 2),
        (True, 1),
    ]
    assert [record.body for record in again.records()] == [b"another", b"hi"]


async def test_a_key_whose_message_went_by_age_is_new_again(side, peer):
    side.send(peer, properties=keyed("k"))
    side.send(peer)
    side.flush()
    queue = side.queues.find("orders", 0)
    queue.units.delete_before(int.from_bytes(queue.read(1, 1)[:8], "big"))
    side.send(peer, properties=keyed("k"))
    side.flush()
    assert (answers(peer)[-1].duplicate, answers(peer)[-1].queue_offset) == (None, 2)
