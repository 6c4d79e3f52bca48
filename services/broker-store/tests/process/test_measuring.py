import asyncio
import contextlib

import pytest
from sending_side import ScriptedPeer, SendingSide

from broker_store.process import measuring
from gantry_wire.names import SCHEDULE_TOPIC, TIMER_TOPIC

pytestmark = pytest.mark.anyio


class Puts:
    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.bytes: dict[str, int] = {}
        self.timers_waiting, self.timers_decided = -1, -1
        self.levels: dict[int, tuple[int, int]] = {}

    def on_put(self, topic: str, count: int, size: int) -> None:
        self.counts[topic] = self.counts.get(topic, 0) + count
        self.bytes[topic] = self.bytes.get(topic, 0) + size

    def note_delays(self, waiting: int, decided: int, levels: dict[int, tuple[int, int]]) -> None:
        self.timers_waiting, self.timers_decided, self.levels = waiting, decided, levels


async def test_stored_messages_are_counted_by_topic_once(monkeypatch):
    monkeypatch.setattr(measuring, "COUNT_SECONDS", 0.01)
    side, peer, puts = SendingSide(), ScriptedPeer(), Puts()
    side.send(peer, "before")
    side.flush()
    task = asyncio.ensure_future(measuring.count_puts(side.queues, puts, side.store.states.settled))
    await asyncio.sleep(0.05)
    for number in range(5):
        side.send(peer, "orders", queue_id=number % 2)
    side.send(peer, "before")
    side.flush()
    await asyncio.sleep(0.05)
    side.send(peer, "orders")
    side.flush()
    await asyncio.sleep(0.05)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert (puts.timers_waiting, puts.levels) == (0, {})
    assert {topic: puts.counts.get(topic) for topic in ("orders", "before")} == {"orders": 6, "before": 1}
    sizes = [record.size for queue_id in range(2) for record in side.records(queue_id=queue_id)]
    assert puts.bytes["orders"] == sum(sizes)


async def test_waiting_messages_are_counted_and_decided_ones_are_not():
    side, peer = SendingSide(), ScriptedPeer()
    metrics = side.foundation.reading.metrics
    soon_ms = str(side.clock.now_ms() + 60_000)
    for _ in range(3):
        side.send(peer, properties={"TIMER_DELIVER_MS": soon_ms, "UNIQ_KEY": "U"})
    for _ in range(2):
        side.send(peer, properties={"DELAY": "3", "UNIQ_KEY": "V"})
    side.flush()
    delayed = side.store.states.settled
    measuring.note_delays(side.queues, metrics, delayed)
    assert (metrics.timers_waiting, metrics.levels) == (3, {3: (0, 2)})
    delayed.raise_cursor((TIMER_TOPIC, 0, ""), 2)
    delayed.raise_cursor((SCHEDULE_TOPIC, 2, ""), 1)
    metrics.sampled_s = 10
    measuring.note_delays(side.queues, metrics, delayed)
    assert (metrics.timers_waiting, metrics.levels) == (1, {3: (1, 2)})
    assert metrics.timer_rate.per_second(10) == 0.2
