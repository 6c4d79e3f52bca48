import errno

import pytest
from sending_side import ScriptedPeer, SendingSide

from broker_store.log.files.simulated_files import Fault
from gantry_wire.headers.messages import SendReplyHeader
from gantry_wire.messages.properties import index_key_hash, tags_code

pytestmark = pytest.mark.anyio


class Reader:
    """Replaces the reading side."""

    def __init__(self, held_count: int = 1) -> None:
        self.held_count = held_count
        self.events: list = []
        self.fails = False

    def arrived(self, topic, queue_id, first_offset, tags_codes) -> None:
        self.events.append((topic, queue_id, first_offset, list(tags_codes)))

    def answer_arrivals(self) -> None:
        self.events.append("answer")
        if self.fails:
            raise RuntimeError("our own bug")


@pytest.fixture
async def side():
    side = SendingSide()
    side.readers = Reader()
    return side


async def test_readers_are_notified_once_per_queue_and_batch_after_the_units_exist(side):
    peer, reader = ScriptedPeer(), side.readers
    side.topics.ensure("orders", 2)
    for number in range(3):
        side.send(peer, queue_id=number % 2, properties={"TAGS": f"t{number}"})
    side.send_batch(peer, [(b"a", {"TAGS": "b"}), (b"b", {})])
    side.end_turn()
    assert reader.events == []
    side.flush()
    assert reader.events == [
        ("orders", 0, 0, [tags_code("t0"), tags_code("t2"), tags_code("b"), 0]),
        ("orders", 1, 0, [tags_code("t1")]),
        "answer",
    ]


async def test_without_waits_no_arrival_is_reported(side):
    reader = side.readers = Reader(held_count=0)
    side.send(ScriptedPeer())
    side.flush()
    assert reader.events == []


async def test_a_reader_that_fails_keeps_no_answer_from_a_sender(side):
    side.readers.fails = True
    peer = ScriptedPeer()
    side.send(peer)
    side.flush()
    assert peer.answers[0].read(SendReplyHeader).queue_offset == 0


async def test_keys_that_could_not_be_indexed_are_indexed_later():
    side, peer = SendingSide(), ScriptedPeer()
    side.files.faults.append(Fault("open", errno.ENOSPC, "/store/index/"))
    side.send(peer, properties={"UNIQ_KEY": "U1", "KEYS": "k1"})
    side.flush()
    assert peer.answers[0].code == 0
    assert side.store.index.lookup(index_key_hash("orders", "U1"), 0, 1 << 60, 9) == []
    side.send(peer, properties={"UNIQ_KEY": "U2"})
    side.flush()
    for key, offset in (("U1", 0), ("k1", 0), ("U2", 1)):
        found = side.store.index.lookup(index_key_hash("orders", key), 0, 1 << 60, 9)
        assert found == [side.records()[offset].position]


async def test_a_key_is_found_as_soon_as_its_message_is_visible_and_reaches_the_files_in_log_order():
    side, peer = SendingSide(), ScriptedPeer()
    side.topics.ensure("fast", 1).attributes = {"gantry.flush": "async"}
    side.send(peer, "slow", properties={"UNIQ_KEY": "U1"})
    side.end_turn()
    side.send(peer, "fast", properties={"UNIQ_KEY": "U2"})
    side.send(peer, "fast", properties={"UNIQ_KEY": "U2"})
    side.end_turn()
    places = [record.position for record in side.records("fast")]

    def found(where, topic, key, count=9):
        return where.lookup(index_key_hash(topic, key), 0, 1 << 60, count)

    keys, files = side.sending.dispatch.keys, side.store.index
    assert found(keys, "fast", "U2") == places[::-1]
    assert found(keys, "fast", "U2", 1) == places[1:]
    assert keys.lookup(index_key_hash("fast", "U2"), 0, 5, 9) == []
    assert (found(files, "fast", "U2"), found(keys, "slow", "U1")) == ([], [])
    side.flush()
    for where in (keys, files):
        assert (len(found(where, "slow", "U1")), found(where, "fast", "U2")) == (1, places[::-1])
