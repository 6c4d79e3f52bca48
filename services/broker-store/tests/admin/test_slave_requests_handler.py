"""What a slave of RocketMQ 5 copies beside the log: the check point of its timer wheel never passes a message that is not delivered."""

import asyncio
from struct import Struct

import pytest
from sending_side import START_S, ScriptedPeer
from settling_side import SettlingSide

from broker_store.admin import slave_requests_handler
from broker_store.admin.slave_requests_handler import SlaveRequestHandlers
from broker_store.requests.deferred_replies import DeferredReplies
from gantry_wire.bodies.fastjson import loads
from gantry_wire.names import TIMER_TOPIC
from gantry_wire.private_requests.settling import SettleOutput

pytestmark = pytest.mark.anyio
NOW = int(START_S * 1000)
FIELDS = Struct(">7q")


class SlaveSide(SettlingSide):
    """A store with timed messages."""

    def __init__(self) -> None:
        super().__init__()
        self.deferred = DeferredReplies(self.classes["adminBroker"], self.clock.now_ms)
        self.handlers = SlaveRequestHandlers(
            self.log, self.queues, self.store.states.settled, self.environment.workers(1, "reader"), self.deferred,
            self.clock.now_ms,
        )  # fmt: skip
        self.table.add_all(self.handlers.commands())
        self.peer = ScriptedPeer()

    def timed(self, *after_ms: int) -> None:
        for later in after_ms:
            self.send(self.peer, properties={"UNIQ_KEY": f"T{later}", "TIMER_DELIVER_MS": str(NOW + later)})
        self.flush()

    def deliver(self, *offsets: int) -> None:
        items = [self.item(offset, SettleOutput("orders", 0), topic=TIMER_TOPIC) for offset in offsets]
        self.settled(items, topic=TIMER_TOPIC)

    async def asked(self, code: int):
        self.peer.answers.clear()
        self.ask(self.peer, code)
        while not self.peer.answers:
            self.threads.settle()
            await asyncio.sleep(0)
        (answer,) = self.peer.answers
        assert answer.code == 0
        return answer

    async def check_point(self) -> tuple[int, int]:
        """Return how far the wheel is read, and how much of the queue has entered it."""
        read_ms, flushed, queue_offset, master_offset, *version = FIELDS.unpack((await self.asked(60)).body)
        assert (flushed, queue_offset, version) == (0, 0, [0, 0, 0])
        return read_ms, master_offset


@pytest.fixture
async def side():
    side = SlaveSide()
    yield side
    await side.deferred.close()


async def test_without_timed_messages_everything_until_ten_seconds_ago_is_delivered(side):
    assert await side.check_point() == (NOW - 10_000, 0)
    side.pass_time(60.5)
    assert await side.check_point() == (NOW + 50_000, 0)


async def test_the_check_point_stops_before_the_earliest_message_that_waits(side):
    side.timed(90_000, 30_500, 60_000)
    side.pass_time(1000)
    assert await side.check_point() == (NOW + 30_000, 3)
    side.deliver(1)
    assert await side.check_point() == (NOW + 60_000, 3)
    side.deliver(2)
    assert await side.check_point() == (NOW + 90_000, 3)
    side.deliver(0)
    assert await side.check_point() == (NOW + 990_000, 3)


async def test_of_very_many_messages_that_wait_the_store_time_of_the_first_counts(side, monkeypatch):
    monkeypatch.setattr(slave_requests_handler, "READ_MAX", 2)
    side.timed(90_000, 30_500, 60_000)
    side.pass_time(1000)
    read_ms, master_offset = await side.check_point()
    assert (NOW - 1000 <= read_ms <= NOW, master_offset) == (True, 3)
    side.deliver(1)
    assert await side.check_point() == (NOW + 60_000, 3)


async def test_counts_and_modes_are_empty_in_the_form_that_rocketmq_reads(side):
    assert loads((await side.asked(61)).body) == {
        "dataVersion": {"counter": 0, "stateVersion": 0, "timestamp": 0}, "timingCount": {},
    }  # fmt: skip
    assert loads((await side.asked(402)).body) == {"messageRequestModeMap": {}}
