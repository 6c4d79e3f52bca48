"""The fast path of ordinary decisions writes the same bytes as the slow path, and leaves everything else to it."""

import errno

import pytest
from sending_side import ScriptedPeer
from settling_side import SettlingSide, deliver

from broker_store.log.files.simulated_files import Fault
from broker_store.settling.request.fast_settle import FastSettle
from gantry_wire.errors import MalformedRecord
from gantry_wire.names import HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from gantry_wire.private_requests.settling import SettleOutput
from gantry_wire.records.half_message import OP_PROPERTIES, op_body
from gantry_wire.records.message_record import decode_record

pytestmark = pytest.mark.anyio

TIMER_DROP = ("REAL_TOPIC", "REAL_QID", "TIMER_OUT_MS", "TIMER_DELIVER_MS", "", "]^-\\")
MESSAGES = (
    {"UNIQ_KEY": "U0"},
    {"TAGS": "a", "KEYS": "k1 k2", "UNIQ_KEY": "U1"},
    {"x": "y", "UNIQ_KEY": "own"},
    {"UNIQ_KEY": "U3", "]^-\\": "gone"},
    {"KEYS": "only", "REAL_QID": "made up", "ä": "ö", "UNIQ_KEY": "U4"},
)
LARGE = {"UNIQ_KEY": "U5", "large": "v" * 32_590}
"""With its mark behind it, this has no room."""


def log_bytes(side: SettlingSide) -> bytes:
    data = side.log.read_nowait(0, side.log.visible_end)
    assert data is not None
    return data


def op_of(offset: int) -> SettleOutput:
    return SettleOutput(
        OP_HALF_TOPIC, 0, body=None, body_base64=op_body(offset), set=OP_PROPERTIES, properties="none"
    )


def lived(flush: str, ip: str, *, fast_paths: bool) -> tuple[bytes, list[object]]:
    """Return the log and the answers of a life in which delayed messages, timed ones and halves are settled."""
    side, peer = SettlingSide(flush=flush, fast_paths=fast_paths), ScriptedPeer(ip)
    side.topics.ensure("orders", 4)
    for queue_id, own in enumerate(MESSAGES):
        instant = {"TIMER_DELIVER_MS": str(int(side.wall_s * 1000) + 1500)}
        half = {"TRAN_MSG": "true", "PGROUP": "pg"}
        for asked in ({"DELAY": "1"}, instant, half):
            side.send(
                peer, body=b"m%d" % queue_id, queue_id=queue_id % 4, properties={**own, **asked}, flag=7
            )
    side.send(peer, body=b"large", properties={**LARGE, "DELAY": "1"})
    side.flush()
    side.pass_time(2)
    answers: list[object] = []
    count = len(MESSAGES)
    levels = [side.item(n, deliver(queue_id=n % 3), outcome="delivered") for n in range(count)]
    levels.append(side.item(count, deliver(drop=())))
    answers += side.settled(levels)
    timers = [side.item(n, deliver(drop=TIMER_DROP), topic=TIMER_TOPIC) for n in range(count)]
    answers += side.settled(timers, topic=TIMER_TOPIC)
    commit = SettleOutput("orders", 1, transaction="commit")
    halves = [side.item(n, commit, op_of(n), topic=HALF_TOPIC) for n in range(count)]
    answers += side.settled(halves, topic=HALF_TOPIC)
    again = [side.item(0, SettleOutput(SCHEDULE_TOPIC, 1, set={"DELAY": "2"}), topic=HALF_TOPIC, force=True)]
    answers += side.settled(again, topic=HALF_TOPIC)
    return log_bytes(side), answers


@pytest.mark.parametrize("ip", ["127.0.0.1", "::1"])
@pytest.mark.parametrize("flush", ["sync", "async"])
async def test_both_paths_write_the_same_log_and_give_the_same_answers(flush, ip, monkeypatch):
    taken: list[bool] = []
    put = FastSettle.put

    def counted(self, gathered):
        places = put(self, gathered)
        taken.append(places is not None)
        return places

    monkeypatch.setattr(FastSettle, "put", counted)
    fast = lived(flush, ip, fast_paths=True)
    assert taken.count(True) > taken.count(False) > 0
    taken.clear()
    assert lived(flush, ip, fast_paths=False) == fast
    assert not taken


@pytest.mark.parametrize("count", [7, 40])
async def test_both_paths_begin_the_next_segment_with_the_same_item(count):
    lives = []
    for is_fast in (True, False):
        side, peers = (
            SettlingSide(segment_bytes=64 * 1024, fast_paths=is_fast),
            (ScriptedPeer(), ScriptedPeer("::1", 2)),
        )
        side.topics.ensure("orders", 4)
        for number in range(count):
            body = b"%d" % number * (1 + number * 997 % 4000)
            side.send(peers[number // 5 % 2], body=body, properties={"UNIQ_KEY": f"U{number}", "DELAY": "1"})
        side.flush()
        side.pass_time(2)
        answers = side.settled([side.item(n, deliver(queue_id=n % 3)) for n in range(count)])
        ends = [min(segment.end, side.log.visible_end) for segment in side.log.segments]
        data = [
            side.log.read_nowait(segment.start, end - segment.start)
            for segment, end in zip(side.log.segments, ends, strict=True)
        ]
        assert None not in data
        lives.append((data, answers, len(data)))
    assert lives[0] == lives[1]
    assert (lives[0][2] > 3) == (count > 7)


@pytest.mark.parametrize("flush", ["sync", "async"])
@pytest.mark.parametrize(
    ("operation", "error", "skip"),
    [
        ("open", errno.ENOSPC, 0),
        ("open", errno.ENOSPC, 1),
        ("open", errno.EMFILE, 1),
        ("pwrite", errno.ENOSPC, 0),
        ("pwrite", errno.ENOSPC, 2),
    ],
)
async def test_both_paths_place_and_take_back_the_same_items_when_the_disk_refuses(
    flush, operation, error, skip
):
    """The next segment cannot be made, or the batch cannot be written. Ordinary items and others take turns."""
    lives = []
    for is_fast in (True, False):
        side, peer = SettlingSide(segment_bytes=64 * 1024, flush=flush, fast_paths=is_fast), ScriptedPeer()
        side.topics.ensure("orders", 4)
        for number in range(40):
            body = b"%d" % number * (1 + number * 997 % 4000)
            side.send(peer, body=body, properties={"UNIQ_KEY": f"U{number}", "DELAY": "1"})
        side.flush()
        side.pass_time(2)
        items = [
            side.item(n, deliver(queue_id=n % 3, set={"own": "x"} if n % 7 == 6 else {})) for n in range(40)
        ]
        seen = []
        for _ in range(2):  # the second request meets no fault, and settles what is left
            side.files.faults = [Fault(operation, error, "commitlog", skip)] if not seen else []
            answers = side.settle([*items, items[3]])
            side.flush()
            side.log.mark_disk_full(full=False)
            counters = [
                (q.topic, q.queue_id, q.next_offset, q.put_bytes, q.max_offset) for q in side.queues.all()
            ]
            seen.append(
                (repr(answers), [row for row in counters if row[2]], side.log.end, side.outcomes(queue_id=1))
            )
        data = [
            side.log.read_nowait(segment.start, min(segment.end, side.log.visible_end) - segment.start)
            for segment in side.log.segments
        ]
        assert None not in data
        lives.append((seen, data))
    assert lives[0] == lives[1]
    first, second = lives[0][0]
    assert first[0].count("status='settled'") < 40
    assert second[0].count("status='settled'") == 40 - first[0].count("status='settled'")


@pytest.mark.parametrize("fast_paths", [True, False])
@pytest.mark.parametrize("put", [{}, {"own": "x"}])
async def test_a_damaged_body_is_delivered_with_the_checksum_that_shows_it(fast_paths, put):
    side = SettlingSide(fast_paths=fast_paths)
    side.topics.ensure("orders", 1)
    side.delayed(ScriptedPeer(), body=b"whole body")
    side.pass_time(2)
    segment = side.log.segments[0]
    side.files.flip(segment.path, log_bytes(side).find(b"whole body"), 1)
    side.settled([side.item(0, deliver(set=put))])
    position, size, _ = side.unit("orders", 0, 0)
    record = side.log.read(position, size)
    assert decode_record(record, check_crc=False).body == b"vhole body"
    with pytest.raises(MalformedRecord):
        decode_record(record)
