"""The fast path of plain messages stores the same bytes, shows the same messages and gives the same remarks as the slow path."""

import errno

import legal_input
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sending_side import ScriptedPeer, SendingSide, send_header

from broker_store.log.files.simulated_files import Fault
from broker_store.sending.plain_run import RUN_BYTES_MAX, PlainRun
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.frames.encode import encode_request
from gantry_wire.frames.frame_stream import BINARY, JSON, FrameDecoder
from gantry_wire.headers.messages import SendReplyHeader
from gantry_wire.messages.properties import index_key_hash

pytestmark = pytest.mark.anyio
KEY = "7F0000010B2C63947C6B8D4F0001{:04X}"


def plain(key: str) -> str:
    return f"UNIQ_KEY\x01{key}\x02WAIT\x01true\x02"


@pytest.fixture
async def side():
    return SendingSide()


@pytest.fixture
def peer():
    return ScriptedPeer()


def deliver(side, peer, opaque, *, topic="orders", queue_id=0, text=None, body=b"hi", code=None, **more):
    """Submit a send in one of the two serializations, by default binary as in the Java benchmark."""
    kind, oneway = more.pop("kind", BINARY), more.pop("oneway", False)
    header = send_header(
        topic, queue_id, properties=plain(KEY.format(opaque)) if text is None else text, **more
    )
    frame = encode_request(
        code or RequestCode.SEND_MESSAGE_V2, opaque, header, body, oneway=oneway, serialize_type=kind
    )
    for raw in FrameDecoder().receive(frame):
        side.receive(peer, raw)


@st.composite
def sends(draw):
    number = draw(st.integers(0, 0xFFFF))
    key = KEY.format(number)
    texts = [
        plain(key), plain(key.lower()), plain("K1"), plain("a-b"), plain("é" * 3), plain("a\x02b"), plain("x" * 300), plain(key)[:-1],
        plain(key).replace("true", "false"), f"TAGS\x01t\x02{plain(key)}", f"{plain(key)}KEYS\x01k1 k2\x02", f"UNIQ_KEY\x01{key}\x02",
    ]  # fmt: skip
    return draw(st.integers(0, 1)), {
        "topic": draw(
            st.sampled_from(
                ["orders"] * 9 + ["ordert", "ordert", "fast", "fast", "t" * 130, "%RETRY%g", "no such topic"]
            )
        ),
        "queue_id": draw(st.sampled_from([0, 0, 0, 0, 1, 1, 3, 12])),
        "text": texts[draw(st.sampled_from([0] * 12 + list(range(len(texts)))))],
        "body": draw(st.sampled_from([b"", b"x", b"y" * 128, b"z" * 70_000])),
        "kind": draw(st.sampled_from([JSON, BINARY, BINARY, BINARY])),
        "oneway": draw(st.sampled_from([False] * 7 + [True])),
        "flag": draw(st.sampled_from([0, 0, 0, 0, 0, 0, 7])),
        "sys_flag": draw(st.sampled_from([0, 0, 0, 1, 0x30, 4])),
        "born_timestamp": draw(st.sampled_from([1_699_999_999_000, 1_699_999_999_123, -1])),
        "reconsume_times": draw(st.sampled_from([0, 0, 0, 0, 0, 2])),
    }


class Replay:
    """A store that executes a script."""

    def __init__(self, *, fast_paths: bool) -> None:
        self.side = SendingSide(message_bytes_max=60_000, fast_paths=fast_paths)
        self.side.sending.special._half = self.side.sending.special._delayed = lambda message, _: message
        for topic in ("orders", "ordert", "fast", "t" * 130):
            self.side.topics.ensure(topic, 4)
        self.side.topics.ensure("fast", 4).attributes = {"gantry.flush": "async"}
        self.peers = [ScriptedPeer(), ScriptedPeer("2001:db8::1", 40001)]
        self.runs = 0

    def play(self, steps):
        for opaque, step in enumerate(steps):
            if isinstance(step, str):
                getattr(self.side, step)()
                continue
            number, more = step
            deliver(self.side, self.peers[number], opaque, **more)
        self.side.flush()
        return self

    def outcome(self):
        side = self.side
        queues = {
            (queue.topic, queue.queue_id): (
                queue.read(0, queue.max_offset),
                queue.next_offset,
                queue.put_bytes,
            )
            for queue in side.queues.all()
            if queue.next_offset
        }
        log = side.log.read_unchecked(0, side.log.visible_end) if side.log.visible_end else b""
        answers = [
            [(answer.opaque, answer.code, answer.remark, answer.ext) for answer in peer.answers]
            for peer in self.peers
        ]
        appends = side.appends
        counts = (appends.batches, appends.written, appends.refused, side.classes["send"].in_flight)
        return queues, log, answers, counts, side.store.index.entries


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(sends(), sends(), sends(), st.sampled_from(["end_turn", "flush"])), max_size=16))
async def test_both_paths_have_the_same_result(steps):
    assert Replay(fast_paths=True).play(steps).outcome() == Replay(fast_paths=False).play(steps).outcome()


def plain_text(draw):
    """Generate properties of a plain message: a unique key, and sometimes tags, keys and a custom one."""
    keys = st.one_of(*[legal_input.names_of_keys] * 4, legal_input.texts)
    text = f"UNIQ_KEY\x01{draw(keys)}\x02WAIT\x01true\x02"
    for name in draw(st.sampled_from([(), (), (), ("TAGS",), ("own", "KEYS")])):
        text += f"{name}\x01{draw(legal_input.texts)}\x02"
    return text


@settings(max_examples=60, deadline=None)
@given(legal_input.scripts(plain_text))
async def test_both_paths_have_the_same_result_for_all_legal_names(steps):
    assert Replay(fast_paths=True).play(steps).outcome() == Replay(fast_paths=False).play(steps).outcome()


async def test_plain_messages_of_a_client_share_an_entry_and_are_answered_one_by_one(side, peer):
    side.topics.ensure("orders", 4)
    side.flush()
    for opaque in range(9):
        deliver(
            side, peer, opaque, queue_id=opaque % 3, body=b"%d" % opaque, kind=BINARY if opaque % 2 else JSON
        )
    run, *others = side.appends._open  # the first one opened the topic, the two after it their queues
    assert [type(entry) for entry in others].count(PlainRun) == 1
    assert others[-1].count == 9 - len(others)
    assert side.classes["send"].in_flight == 9
    side.flush()
    assert [answer.opaque for answer in peer.answers] == list(range(9))
    assert [record.body for record in side.records(queue_id=1)] == [b"1", b"4", b"7"]
    assert side.classes["send"].in_flight == 0
    assert side.appends.written == 9 + 2  # and the segment's preamble, and the topic
    for answer, record in zip(peer.answers[1::3], side.records(queue_id=1), strict=True):
        reply = answer.read(SendReplyHeader)
        assert (reply.msg_id, reply.queue_offset) == (record.message_id, record.queue_offset)
        assert reply.transaction_id == record.property_map()["UNIQ_KEY"]
        hashed = index_key_hash("orders", reply.transaction_id)
        assert side.store.index.lookup(hashed, 0, 2**60, 8) == [record.position]
    assert run is not others[-1]


async def test_the_fast_path_does_what_parsing_the_header_does_not(side, peer, monkeypatch):
    for opaque in range(3):
        deliver(side, peer, opaque)
    side.flush()
    monkeypatch.setattr("gantry_wire.frames.known_headers.decode_command", None)
    monkeypatch.setattr("gantry_wire.frames.known_headers.HeaderPattern.command", None)
    deliver(side, peer, 3, born_timestamp=1_699_999_999_555)
    side.flush()
    assert side.records()[-1].born_timestamp == 1_699_999_999_555
    assert [answer.code for answer in peer.answers] == [0] * 4


@pytest.mark.parametrize("kind", [JSON, BINARY])
@pytest.mark.parametrize(
    "other",
    [{"sys_flag": 1}, {"sys_flag": 0x101}, {"flag": 9}, {"reconsume_times": 3}, {"born_timestamp": -1}],
)
async def test_other_values_in_the_header_are_stored_unchanged(side, peer, kind, other):
    for opaque in range(3):
        deliver(side, peer, opaque, kind=kind)
    deliver(side, peer, 3, kind=kind, **other)
    deliver(side, peer, 4, kind=kind, **other)
    deliver(side, peer, 5, kind=kind)
    side.flush()
    ((name, value),) = other.items()
    usual = {"sys_flag": 0, "flag": 0, "reconsume_times": 0, "born_timestamp": 1_699_999_999_000}[name]
    assert [getattr(record, name) for record in side.records()] == [usual] * 3 + [value] * 2 + [usual]


async def test_the_fast_path_is_for_what_the_slow_path_took_before(peer):
    side = SendingSide(accept_sends_after_ms=1_700_000_001_000)
    deliver(side, peer, 0)
    deliver(side, peer, 1)
    side.topics.ensure("orders", 4)
    side.sending.targets.admit(send_header("orders"), peer.remote)  # by a request other than a send
    deliver(side, peer, 2)
    side.flush()
    assert [answer.code for answer in peer.answers] == [1, 1, 1]
    side.pass_time(2)
    deliver(side, peer, 3)
    side.flush()
    assert peer.answers[-1].code == 0


async def test_a_changing_topic_is_checked_again(side, peer):
    for opaque in range(3):
        deliver(side, peer, opaque)
    side.flush()
    side.topics.ensure("orders", 4).attributes = {"gantry.flush": "async"}
    side.sending.targets.forget("orders")
    deliver(side, peer, 3)
    side.end_turn()
    assert [answer.read(SendReplyHeader).durability for answer in peer.answers] == ["fsync"] * 3 + ["written"]


async def test_a_run_is_bounded_and_a_large_message_is_a_run_of_its_own(side, peer):
    deliver(side, peer, 0)
    side.flush()
    for opaque in range(1, 8):
        deliver(side, peer, opaque, body=b"x" * (RUN_BYTES_MAX // 3))
    deliver(side, peer, 8, body=b"x" * (RUN_BYTES_MAX + 1))
    assert [entry.count for entry in side.appends._open] == [2, 2, 2, 1, 1]
    side.flush()
    assert [record.queue_offset for record in side.records()] == list(range(9))


async def test_another_message_between_them_keeps_its_place(side, peer):
    deliver(side, peer, 0)
    side.flush()
    deliver(side, peer, 1, body=b"1")
    side.send(peer, properties={"UNIQ_KEY": "U2", "TAGS": "t"}, body=b"2")
    deliver(side, peer, 3, body=b"3")
    side.flush()
    assert [record.body for record in side.records()[1:]] == [b"1", b"2", b"3"]


async def test_more_than_the_bound_under_way_answers_overload(peer):
    side = SendingSide(send_pending_max=3)
    deliver(side, peer, 0)
    side.flush()
    for opaque in range(1, 6):
        deliver(side, peer, opaque)
    side.flush()
    assert [answer.code for answer in peer.answers] == [0, 2, 2, 0, 0, 0]
    assert side.classes["send"].refused_full == 2


async def test_one_way_messages_are_stored_and_not_answered(side, peer):
    deliver(side, peer, 0)
    side.flush()
    deliver(side, peer, 1)
    deliver(side, peer, 2, oneway=True)
    side.flush()
    assert [answer.opaque for answer in peer.answers] == [0, 1]
    assert len(side.records()) == 3


async def test_a_full_disk_refuses_the_run_and_gives_its_offsets_back(side, peer):
    for opaque in range(2):
        deliver(side, peer, opaque)
    side.flush()
    put_bytes = side.queues.find("orders", 0).put_bytes
    side.files.faults.append(Fault("pwrite", errno.ENOSPC, "commitlog"))
    for opaque in range(2, 5):
        deliver(side, peer, opaque)
    deliver(side, peer, 5, oneway=True)
    side.end_turn()
    assert [answer.code for answer in peer.answers[2:]] == [ResponseCode.SERVICE_NOT_AVAILABLE] * 3
    queue = side.queues.find("orders", 0)
    assert (queue.next_offset, queue.put_bytes) == (2, put_bytes)
    assert side.classes["send"].in_flight == 0


async def test_a_flush_that_takes_too_long_answers_10_and_the_run_becomes_visible_later(side, peer):
    deliver(side, peer, 0)
    side.flush()
    for opaque in (1, 2):
        deliver(side, peer, opaque)
    side.end_turn()
    side.pass_time(5.1)
    side.appends.answer_late()
    late = peer.answers[1:]
    assert [answer.code for answer in late] == [ResponseCode.FLUSH_DISK_TIMEOUT] * 2
    assert [answer.read(SendReplyHeader).queue_offset for answer in late] == [1, 2]
    side.flush()
    assert len(peer.answers) == 3
    assert len(side.records()) == 3
