"""Deliveries against stores that refuse, are away or answer early; cancel records; rolling."""

import asyncio
import contextlib
from time import monotonic

import pytest
from read_to import ReadTo

from gantry_chassis.machine.environment import machine
from gantry_chassis.metrics import Metrics
from gantry_link.errors import ConnectionLost
from gantry_wire.names import TIMER_TOPIC
from gantry_wire.private_requests.settling import SettleReplyBody, SettleResult, SettleStatus
from scheduler.delivering.cancel_records import CancelRecords
from scheduler.delivering.deliveries import Deliveries, Pace
from scheduler.delivering.rolling import Rolling
from scheduler.index.due_queue_names import DELAYS, INSTANTS
from scheduler.index.due_queues import DueQueues
from scheduler.index.entries import TIMER, Entry, key_of
from scheduler.index.sqlite_index import SqliteIndex
from scheduler.index.store_clock import StoreClock
from scheduler.metrics import SchedulerMetrics

pytestmark = pytest.mark.anyio
NOW_MS = 1_700_000_000_000


class ScriptedSettler:
    """Answers each item from a list of statuses by offset, then with settled.

    A number means early until then; an exception fails the request.
    """

    def __init__(self):
        self.script, self.asked = {}, []

    async def settle(self, queue, items):
        results = []
        for item in items:
            self.asked.append((queue, item))
            status = self.script[item.offset].pop(0) if self.script.get(item.offset) else SettleStatus.SETTLED
            if isinstance(status, Exception):
                raise status
            due_ms = status if isinstance(status, int) else 0
            results.append(SettleResult(item.offset, SettleStatus.EARLY if due_ms else status, due_ms=due_ms))
        return SettleReplyBody(results, NOW_MS)

    def outcomes(self, offset):
        return [item.outcome for _, item in self.asked if item.offset == offset]


class Parts:
    def __init__(self, path, park_after_ms=1000):
        self.clock = StoreClock()
        self.clock.heard(NOW_MS, monotonic(), NOW_MS)
        self.due_queues = DueQueues(SqliteIndex(path, machine().workers), self.clock, monotonic, ReadTo())
        self.settler, self.metrics = ScriptedSettler(), SchedulerMetrics(Metrics())
        self.deliveries = Deliveries(
            self.due_queues, self.settler, self.clock, self.metrics, Pace(park_after_ms=park_after_ms)
        )
        self.cancels = CancelRecords(self.due_queues, self.settler, self.metrics)
        self.rolling = Rolling(self.due_queues, self.settler, self.metrics, [0, TIMER])

    def arm(self, *entries, due_queue=DELAYS):
        self.due_queues.arm(entries, due_queue)
        self.deliveries.wake()

    async def until(self, condition):
        async with asyncio.timeout(30):
            while not condition():
                await asyncio.sleep(0.01)


@pytest.fixture
async def parts(tmp_path):
    made = Parts(tmp_path / "a.sqlite")
    tasks = [asyncio.ensure_future(one.run()) for one in (made.deliveries, made.cancels, made.rolling)]
    yield made
    for task in tasks:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    await made.due_queues.far.close()


def entry(offset, after_ms=0, source=0, uniq=None, cancels=b""):
    key = key_of(source, offset)
    return Entry(
        NOW_MS + after_ms,
        key,
        offset * 100,
        "orders",
        0,
        uniq or b"u%d" % offset,
        b"",
        cancels,
        source == TIMER,
    )


async def test_due_messages_are_settled_and_others_wait(parts):
    parts.arm(entry(1), entry(2, 150), entry(3, 3_600_000))
    await parts.until(lambda: len(parts.settler.asked) == 2)
    assert parts.due_queues.pending == 1
    assert parts.metrics.delivered.value == 2


async def test_waking_at_any_moment_around_an_instant_loses_nothing(parts):
    parts.due_queues.arm([entry(number, number // 2) for number in range(200)], DELAYS)
    async with asyncio.timeout(30):
        while parts.due_queues.pending:
            parts.deliveries.wake()
            parts.deliveries.wake()
            await asyncio.sleep(0)
    assert parts.metrics.delivered.value == 200


async def test_a_request_to_an_unreachable_store_is_retried(parts):
    parts.settler.script[1] = [ConnectionLost("gone", sent=True), SettleStatus.ALREADY]
    parts.arm(entry(1))
    await parts.until(lambda: parts.due_queues.pending == 0)
    assert len(parts.settler.asked) == 2


async def test_an_early_answer_moves_the_clock_back_and_the_message_is_retried_at_its_time(parts):
    parts.settler.script[1] = [SettleStatus.EARLY]
    parts.arm(entry(1))
    await parts.until(lambda: parts.due_queues.pending == 0)
    assert len(parts.settler.asked) == 2


async def test_a_message_of_a_longer_level_waits_until_the_store_allows_it_and_no_clock_is_corrected(parts):
    """The level was longer when the message was sent, and the message does not carry its delay."""
    parts.clock.heard(
        NOW_MS - 5000, monotonic()
    )  # a slow answer: a correction would move the clock back to it
    parts.settler.script[1] = [NOW_MS + 3_600_000]
    parts.arm(entry(1))
    await parts.until(lambda: parts.due_queues.due[DELAYS].far_count or len(parts.settler.asked) > 1)
    await asyncio.sleep(0.05)
    assert len(parts.settler.asked) == 1
    assert parts.clock.now_ms(monotonic()) >= NOW_MS


async def test_a_message_that_fails_too_long_is_parked_and_others_continue(parts):
    parts.settler.script[1] = [SettleStatus.UNKNOWN_TOPIC] * 1
    parts.settler.script[2] = [SettleStatus.REMOVED]
    parts.arm(entry(1, -5000), entry(2), entry(3))
    await parts.until(lambda: parts.due_queues.pending == 0)
    assert parts.settler.outcomes(1) == ["delivered", "parked"]
    assert parts.settler.outcomes(3) == ["delivered"]
    assert parts.metrics.outcomes.labels("parked").value == 1


async def test_a_cancel_record_is_settled_with_its_target_wherever_that_waits(parts):
    parts.arm(entry(1, 3_600_000, TIMER), entry(2, 5000, TIMER), due_queue=INSTANTS)
    for number in (1, 2):
        parts.cancels.take(entry(10 + number, 5000, TIMER, cancels=b"orders+u%d" % number))
    await parts.until(lambda: len(parts.settler.asked) == 4)
    assert [(queue[0], item.offset, item.outputs) for queue, item in parts.settler.asked] == [
        (TIMER_TOPIC, offset, []) for offset in (1, 11, 2, 12)
    ]
    await parts.until(lambda: parts.due_queues.pending == 0)


async def test_a_cancel_record_before_its_target_waits_for_it(parts):
    parts.cancels.take(entry(5, 60_000, TIMER, cancels=b"orders+late"))
    await parts.until(lambda: parts.due_queues.pending == 1)
    target = entry(6, 60_000, TIMER, uniq=b"late")
    parts.arm(target, due_queue=INSTANTS)
    parts.cancels.noticed([target])
    await parts.until(lambda: parts.due_queues.pending == 0)
    assert parts.settler.outcomes(6) == ["cancelled"]


@pytest.mark.parametrize("after_ms", [10_000, 3_600_000])
async def test_a_cancel_record_meets_a_target_read_during_the_lookup(parts, monkeypatch, after_ms):
    looked, go_on, find = asyncio.Event(), asyncio.Event(), parts.due_queues.far.find

    async def slow(uniq):
        found = await find(uniq)
        looked.set()
        await go_on.wait()
        return found

    monkeypatch.setattr(parts.due_queues.far, "find", slow)
    parts.cancels.take(entry(5, 60_000, TIMER, cancels=b"orders+late"))
    await looked.wait()
    target = entry(6, after_ms, TIMER, uniq=b"late")
    parts.due_queues.arm([target], INSTANTS)
    parts.cancels.noticed([target])
    go_on.set()
    await parts.until(lambda: parts.due_queues.pending == 0)
    assert parts.settler.outcomes(6) == ["cancelled"]
    assert len(parts.settler.outcomes(5)) == 1


async def test_a_cancel_record_for_another_topic_leaves_a_message_alone(parts):
    parts.arm(entry(1, 60_000, TIMER), due_queue=INSTANTS)
    parts.cancels.take(entry(5, 60_000, TIMER, cancels=b"others+u1"))
    await parts.until(lambda: parts.due_queues.pending == 2)
    assert parts.settler.asked == []


async def test_messages_in_expiring_segments_are_rolled_near_and_far(parts):
    parts.arm(entry(1, 10_000), entry(2, 3_600_000), entry(9, 3_600_000))
    parts.arm(entry(3, 3_600_000, TIMER), due_queue=INSTANTS)
    parts.rolling.ask(500)
    await parts.until(lambda: len(parts.settler.asked) == 3)
    assert {item.offset for _, item in parts.settler.asked} == {1, 2, 3}
    assert all(item.outputs[0].topic == TIMER_TOPIC for _, item in parts.settler.asked)
    assert {item.outputs[0].set["TIMER_OUT_MS"] for _, item in parts.settler.asked if item.offset == 1} == {
        str(NOW_MS + 10_000)
    }
    await parts.until(lambda: parts.due_queues.pending == 1)
