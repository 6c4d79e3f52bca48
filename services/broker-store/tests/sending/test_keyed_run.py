"""The fast path of keyed messages stores the same bytes, judges keys alike and gives the same remarks as the slow path."""

import errno

import legal_input
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sending_side import ScriptedPeer, SendingSide, send_header

from broker_store.log.files.simulated_files import Fault
from broker_store.sending.keyed_run import KEYED_CHARS_MAX, KeyedRun
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.frames.encode import encode_request
from gantry_wire.frames.frame_stream import BINARY, JSON, FrameDecoder
from gantry_wire.headers.messages import SendReplyHeader

pytestmark = pytest.mark.anyio
UNIQUE = "7F0000010B2C63947C6B8D4F0001{:04X}"


def keyed(key: str, number: int) -> str:
    return f"UNIQ_KEY\x01{UNIQUE.format(number)}\x02__GANTRY_KEY\x01{key}\x02"


@pytest.fixture
async def side():
    return SendingSide()


@pytest.fixture
def peer():
    return ScriptedPeer()


def deliver(side, peer, opaque, key="k", *, topic="orders", queue_id=0, text=None, body=b"hi", **more):
    kind, oneway = more.pop("kind", JSON), more.pop("oneway", False)
    header = send_header(topic, queue_id, properties=keyed(key, opaque) if text is None else text, **more)
    frame = encode_request(
        RequestCode.SEND_MESSAGE_V2, opaque, header, body, oneway=oneway, serialize_type=kind
    )
    for raw in FrameDecoder().receive(frame):
        side.receive(peer, raw)


@st.composite
def sends(draw):
    number, key = (
        draw(st.integers(0, 0xFFFF)),
        draw(st.sampled_from(["a", "a", "b", "c", "é", '"\\', "x" * 100])),
    )
    text = keyed(key, number)
    texts = [
        text, f"{text}WAIT\x01true\x02", f"{text}WAIT\x01false\x02", f"TAGS\x01t\x02{text}", f"{text}TAGS\x01t\x02", text[:-1],
        text.replace("7F", "a-"), text.replace(UNIQUE.format(number), "é"), keyed("", number), f"{text}\x02", f"{text}x\x01y",
        keyed(f"{key}\x01z", number), keyed("y" * KEYED_CHARS_MAX, number), f"__GANTRY_KEY\x01{key}\x02", text + text,
        f"UNIQ_KEY\x01{UNIQUE.format(number)}\x02WAIT\x01true\x02",
    ]  # fmt: skip
    return draw(st.integers(0, 1)), {
        "topic": draw(
            st.sampled_from(["orders"] * 9 + ["ordert", "fast", "fast", "%RETRY%g", "no such topic"])
        ),
        "queue_id": draw(st.sampled_from([0, 0, 0, 0, 1, 3, 12])),
        "text": texts[draw(st.sampled_from([0] * 16 + list(range(len(texts)))))],
        "body": draw(st.sampled_from([b"", b"x", b"x", b"x", b"y" * 128, b"z" * 70_000])),
        "kind": draw(st.sampled_from([JSON, JSON, BINARY])),
        "oneway": draw(st.sampled_from([False] * 7 + [True])),
        "flag": draw(st.sampled_from([0, 0, 0, 0, 0, 7])),
        "sys_flag": draw(st.sampled_from([0, 0, 0, 0, 1, 4])),
    }


class Replay:
    """A store that executes a script."""

    def __init__(self, *, fast_paths: bool) -> None:
        self.side = SendingSide(message_bytes_max=60_000, fast_paths=fast_paths)
        self.side.sending.special._half = lambda message, _: message
        for topic in ("orders", "ordert", "fast"):
            self.side.topics.ensure(topic, 4)
        self.side.topics.ensure("fast", 4).attributes = {"gantry.flush": "async"}
        self.peers = [ScriptedPeer(), ScriptedPeer("2001:db8::1", 40001)]

    def play(self, steps):
        for opaque, step in enumerate(steps):
            if step == "later":
                self.side.pass_time(301)
            elif isinstance(step, str):
                getattr(self.side, step)()
            else:
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
        appends, window = side.appends, side.store.window
        counts = (appends.batches, appends.written, appends.refused, side.classes["send"].in_flight)
        return queues, log, answers, counts, side.store.index.entries, window.packed(0)


steps = st.lists(
    st.one_of(sends(), sends(), sends(), sends(), st.sampled_from(["end_turn", "flush", "later"])),
    max_size=20,
)


@settings(max_examples=80, deadline=None)
@given(steps)
async def test_both_paths_have_the_same_result(steps):
    assert Replay(fast_paths=True).play(steps).outcome() == Replay(fast_paths=False).play(steps).outcome()


ENDS = ("", "WAIT\x01true\x02")


def keyed_text(draw):
    """Generate properties of a keyed message. Keys repeat sometimes."""
    unique, key = draw(legal_input.names_of_keys), draw(st.one_of(st.sampled_from("kl"), legal_input.texts))
    return f"UNIQ_KEY\x01{unique}\x02__GANTRY_KEY\x01{key}\x02{draw(st.sampled_from(ENDS))}"


@settings(max_examples=60, deadline=None)
@given(legal_input.scripts(keyed_text))
async def test_both_paths_have_the_same_result_for_all_legal_names(steps):
    assert Replay(fast_paths=True).play(steps).outcome() == Replay(fast_paths=False).play(steps).outcome()


async def test_keyed_messages_of_a_client_share_an_entry_and_are_remembered_one_by_one(side, peer):
    deliver(side, peer, 0, "first")
    side.flush()
    for opaque in range(1, 9):
        deliver(side, peer, opaque, f"k{opaque}", body=b"%d" % opaque)
    (run,) = side.appends._open
    assert (type(run), run.count) == (KeyedRun, 8)
    side.flush()
    for opaque in range(1, 9):
        deliver(side, peer, 100 + opaque, f"k{opaque}", body=b"%d" % opaque)
    side.flush()
    stored, repeated = peer.answers[1:9], peer.answers[9:]
    for first, again in zip(stored, repeated, strict=True):
        one, two = first.read(SendReplyHeader), again.read(SendReplyHeader)
        assert (one.duplicate, two.duplicate) == (None, True)
        assert (one.msg_id, one.queue_offset, one.transaction_id) == (
            two.msg_id,
            two.queue_offset,
            two.transaction_id,
        )
    assert len(side.records()) == 9


async def test_a_repeat_or_other_content_within_a_run_is_found(side, peer):
    for opaque, (key, body) in enumerate([("a", b"1"), ("b", b"2"), ("a", b"1"), ("b", b"3"), ("c", b"4")]):
        deliver(side, peer, opaque, key, body=body)
    assert [answer.opaque for answer in peer.answers] == [3]  # the conflict; the repeat waits for the flush
    side.flush()
    codes = {answer.opaque: (answer.code, answer.ext.get("duplicate")) for answer in peer.answers}
    assert codes == {0: (0, None), 1: (0, None), 2: (0, "true"), 3: (13, None), 4: (0, None)}
    assert [record.body for record in side.records()] == [b"1", b"2", b"4"]


@pytest.mark.parametrize("key", ["k", "é" * 20, 'a"b\\c', "x" * 100])
async def test_after_a_kill_a_repeat_is_still_known_with_the_same_content(side, peer, key):
    for opaque in range(3):
        deliver(side, peer, opaque, f"{key}{opaque}")
    side.flush()
    again = side.reopen()
    deliver(again, peer, 10, f"{key}1")
    deliver(again, peer, 11, f"{key}1", body=b"other")
    again.flush()
    codes = {answer.opaque: (answer.code, answer.ext.get("duplicate")) for answer in peer.answers[3:]}
    assert codes == {10: (0, "true"), 11: (13, None)}


async def test_keys_of_a_run_that_was_refused_are_free_again(side, peer):
    deliver(side, peer, 0, "first")
    side.flush()
    side.files.faults.append(Fault("pwrite", errno.ENOSPC, "commitlog"))
    deliver(side, peer, 1, "a")
    deliver(side, peer, 2, "b")
    side.end_turn()
    assert [answer.code for answer in peer.answers[1:]] == [ResponseCode.SERVICE_NOT_AVAILABLE] * 2
    side.log.mark_disk_full(full=False)
    deliver(side, peer, 3, "a", body=b"new")
    deliver(side, peer, 4, "b", body=b"new")
    side.flush()
    assert [answer.code for answer in peer.answers[3:]] == [0, 0]
    assert [record.body for record in side.records()] == [b"hi", b"new", b"new"]


async def test_a_key_refused_for_load_is_free_again(peer):
    side = SendingSide(send_pending_max=2)
    side.topics.ensure("orders", 4)
    side.flush()
    for opaque in range(4):
        deliver(side, peer, opaque, f"k{opaque}")
    assert [answer.code for answer in peer.answers] == [ResponseCode.SYSTEM_BUSY] * 2
    side.flush()
    deliver(side, peer, 5, "k3", body=b"new")
    side.flush()
    assert (peer.answers[-1].code, peer.answers[-1].ext.get("duplicate")) == (0, None)
