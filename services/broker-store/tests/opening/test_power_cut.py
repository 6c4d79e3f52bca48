"""A power cut at every step of a day of a store: everything acknowledged as durable is back, nothing is invented or doubled."""

import asyncio
from collections import Counter

import pytest
from sending_side import ScriptedPeer, SendingSide
from simulated_days import chosen_steps, crashes, day_until, steps_of

from broker_store.log.files.simulated_files import Crashed, SimulatedFiles
from gantry_wire.headers.messages import SendReplyHeader
from gantry_wire.messages.properties import index_key_hash

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]
MIB = 1024 * 1024
STATES_PER_STEP = 4
ASYNC_TOPIC = {
    "topic": "short", "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6",
    "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false", "attributes": "+gantry.flush=async",
}  # fmt: skip


class Day:
    """Sends, checkpoints, a deletion, a roll into the next segment and a stop, with the acknowledgements."""

    flush_mode = "sync"
    is_short_async = False
    """Whether the topic that is deleted has async flush of its own."""

    def __init__(self) -> None:
        self.files = SimulatedFiles()
        self.peer = ScriptedPeer()
        self.acknowledged: dict[tuple[str, int, int], bytes] = {}
        self.sent: Counter[bytes] = Counter()
        self.keyed: dict[str, str] = {}
        self.deleted = False

    async def live(self) -> None:
        side = SendingSide(self.files, segment_bytes=MIB, flush=self.flush_mode)
        if self.is_short_async:
            side.ask(self.peer, 17, ASYNC_TOPIC)
        for number in range(3):
            self.send(side, "orders", b"a%d" % number, number % 2, key=f"k{number}")
        self.flush(side)
        await side.sending.checkpoints.take()
        self.send(side, "short", b"gone", 0)
        self.send(side, "orders", b"between", 0, key="between")
        self.flush(side)
        for number in range(5):
            self.send(side, "orders", b"%d" % number + b"x" * 250_000, 1)
        self.flush(side)
        await side.sending.checkpoints.take()
        side.ask(self.peer, 215, {"topic": "short"})
        self.deleted = True
        self.flush(side)
        self.send(side, "orders", b"late", 0, key="late")
        self.flush(side)
        await side.sending.checkpoints.close()

    def send(self, side: SendingSide, topic: str, body: bytes, queue_id: int, key: str = "") -> None:
        properties = {"UNIQ_KEY": f"U{body[:9].decode()}", **({"__GANTRY_KEY": key} if key else {})}
        self.sent[body] += 1
        side.send(self.peer, topic, body, queue_id, properties=properties)
        self._waiting = [*getattr(self, "_waiting", []), (topic, queue_id, body, key)]

    def flush(self, side: SendingSide) -> None:
        before = len(self.peer.answers)
        side.flush()
        stored = [answer for answer in self.peer.answers[before:] if "msgId" in answer.ext]
        for (topic, queue_id, body, key), answer in zip(self._waiting, stored, strict=True):
            reply = answer.read(SendReplyHeader)
            self.acknowledged[(topic, queue_id, reply.queue_offset)] = body
            if key:
                self.keyed[key] = reply.msg_id
        self._waiting = []


class AsyncDay(Day):
    """All topics are async: a kill loses nothing acknowledged, a power cut may."""

    flush_mode = "async"


class MixedDay(Day):
    """One topic is async, one sync."""

    is_short_async = True


def check(day: Day, disk: SimulatedFiles, *, power_cut: bool = False, rebuilds: bool = False) -> None:
    side = SendingSide(disk, 1_700_000_100.0, segment_bytes=MIB, flush=day.flush_mode)
    assert rebuilds or side.opening.rebuild_reason is None, "a rebuild though nothing was harmed"
    found: dict[tuple[str, int, int], bytes] = {}
    for topic in ("orders", "short"):
        for queue_id in (0, 1):
            for record in side.records(topic, queue_id):
                found[(topic, queue_id, record.queue_offset)] = record.body
                key_hash = index_key_hash(topic, f"U{record.body[:9].decode()}")
                assert side.store.index.lookup(key_hash, 0, 1 << 62, 99), (
                    f"not indexed: {topic} {record.body[:9]}"
                )
    may_lose = {"orders", "short"} if power_cut and day.flush_mode == "async" else set()
    may_lose |= {"short"} if day.deleted or (power_cut and day.is_short_async) else set()
    for place, body in day.acknowledged.items():
        allowed = [body, None] if place[0] in may_lose else [body]
        assert found.get(place) in allowed, f"acknowledged and lost, or another message: {place}"
    if may_lose == {"orders", "short"}:
        return  # keys and offsets of what was lost are lost too
    stored = Counter(found.values())
    assert stored <= day.sent, "more than was sent"
    for key, message_id in day.keyed.items():
        repeat(side, key, message_id, day)
    for topic, queue_id, offset in day.acknowledged:
        if topic in may_lose and day.is_short_async:
            continue
        assert side.queues.open(topic, queue_id).next_offset > offset, "an offset would be used twice"
    peer = ScriptedPeer()
    side.send(peer, "orders", b"after", 0)
    side.flush()
    assert peer.answers[0].code == 0


def repeat(side: SendingSide, key: str, message_id: str, day: Day) -> None:
    peer = ScriptedPeer()
    queue_id, body = next(
        (place[1], body)
        for place, body in day.acknowledged.items()
        if place[0] == "orders"
        and body == {"between": b"between", "late": b"late"}.get(key, b"a" + key[1:].encode())
    )
    side.send(peer, "orders", body, queue_id, properties={"UNIQ_KEY": "again", "__GANTRY_KEY": key})
    side.flush()
    answer = peer.answers[0].read(SendReplyHeader)
    assert answer.duplicate, f"stored twice: {key}"
    assert answer.msg_id == message_id


@pytest.mark.crash
@crashes(sampled=40)
@pytest.mark.parametrize("kind", [Day, AsyncDay, MixedDay])
async def test_a_power_cut_at_any_step_loses_nothing_acknowledged_and_doubles_no_key(kind, crashes_max, seed):
    """Days of other flush modes are sampled less: most of their steps are those of the sync day."""
    if crashes_max is not None and kind is not Day:
        crashes_max //= 3
    for step in chosen_steps(range(await steps_of(kind)), crashes_max, seed):
        day = await day_until(kind, step)
        for disk in day.files.crash_states(STATES_PER_STEP, seed=step ^ seed):
            check(day, disk, power_cut=True)
        await asyncio.sleep(0)


@pytest.mark.crash
@crashes(sampled=30)
@pytest.mark.parametrize("kind", [Day, AsyncDay, MixedDay])
async def test_a_kill_at_any_step_loses_nothing_acknowledged_and_doubles_no_key(kind, crashes_max, seed):
    if crashes_max is not None and kind is not Day:
        crashes_max //= 3
    for step in chosen_steps(range(await steps_of(kind)), crashes_max, seed):
        day = await day_until(kind, step)
        check(day, day.files.killed())
        await asyncio.sleep(0)


@pytest.mark.crash
@crashes(sampled=12)
@pytest.mark.parametrize("loses_queues", [False, True])
async def test_a_power_cut_in_the_middle_of_recovery_is_recovered_too(loses_queues, crashes_max, seed):
    steps = await steps_of(Day)
    day = await day_until(Day, steps * 2 // 3)
    opened = day.files.killed()
    if loses_queues:
        opened.remove_dir("/store/consumequeue")
    before = len(opened.trace)
    SendingSide(opened, 1_700_000_050.0, segment_bytes=MIB)
    opening_steps = len(opened.trace) - before
    assert opening_steps > 30
    for step in chosen_steps(range(opening_steps), crashes_max, seed):
        disk = day.files.killed()
        if loses_queues:
            disk.remove_dir("/store/consumequeue")
        disk.crash_after = step
        with pytest.raises(Crashed):
            SendingSide(disk, 1_700_000_050.0, segment_bytes=MIB)
        disk.crash_after = None
        for state in disk.crash_states(STATES_PER_STEP, seed=step ^ seed):
            check(day, state, rebuilds=loses_queues)
        await asyncio.sleep(0)
