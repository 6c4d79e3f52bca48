"""The pipeline of one queue: limits, filters, offsets that moved, failures, pauses."""

import asyncio
from time import monotonic

import pytest
from received import QUEUES, record_bytes, until

from gantry_link.clients.store import Pulled
from gantry_link.errors import BrokerRefused, NotConnected
from gantrymq.consumer.shared import pulling
from gantrymq.consumer.shared.flow import FlowLimits
from gantrymq.consumer.shared.process_queue import ProcessQueue
from gantrymq.consumer.shared.pulling import Pipeline
from gantrymq.consumer.shared.statistics import TopicStatistics
from gantrymq.consumer.subscriptions.subscription import Subscription
from gantrymq.message import ReceivedMessage

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("connection")]
ALL = Subscription("orders")


class Source:
    """A consumer that a pipeline pulls for, and its broker."""

    group, namespace, orderly, pull_batch_size, pull_interval, hold_seconds = "g", "", False, 32, 0.0, 1.0
    flow = FlowLimits(messages_max=2)

    def __init__(self, *answers: Pulled | Exception) -> None:
        self.filters = []
        self.steady = monotonic
        self.open = asyncio.Event()
        self.open.set()
        self.answers = list(answers)
        self.headers, self.moved, self.passed = [], [], []
        self.messages: list[ReceivedMessage] = []
        self.is_paused = False
        self.connected = True
        self.on_answer = None

    def gate(self, queue: ProcessQueue) -> asyncio.Event:
        return self.open

    def store_to_pull(self, broker: str):
        return self

    async def pull(self, header, *, timeout_seconds: float) -> Pulled:
        self.headers.append(header)
        if not self.answers:
            await asyncio.sleep(3600)
        answer = self.next_answer()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def begin_pull(self, header, on_answer, timeout_seconds: float) -> bool:
        if not self.connected:
            return False
        self.headers.append(header)
        self.on_answer = on_answer
        if self.answers:
            asyncio.get_running_loop().call_soon(lambda: on_answer(self.next_answer()))
        return True

    def next_answer(self) -> Pulled | Exception:
        if self.is_paused:
            self.open.clear()
        return self.answers.pop(0)

    def suggested(self, broker: str, broker_id: int) -> None: ...

    def committed(self, queue: ProcessQueue) -> int | None:
        return None

    def arrived(self, queue: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        self.messages += messages
        self.passed.append(queue.commit_offset)

    def offset_moved(self, queue: ProcessQueue, offset: int) -> None:
        self.moved.append(offset)
        queue.dropped = True


def found(*offsets: int, next_offset: int, **properties: str) -> Pulled:
    records = b"".join(record_bytes(offset, **properties) for offset in offsets)
    return Pulled(0, next_offset, 0, 100, "FOUND", records)


@pytest.fixture(params=["open", "none"])
def connection(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pulls over a connection that is open, and pulls that make one first: the same comes of both."""
    opened = Source.__init__

    def made(self: Source, *answers: Pulled | Exception) -> None:
        opened(self, *answers)
        self.connected = request.param == "open"

    monkeypatch.setattr(Source, "__init__", made)


async def pull(source: Source, subscription: Subscription = ALL):
    return await pull_with(source, {"orders": subscription})


async def pull_with(source: Source, subscriptions: dict[str, Subscription]):
    held = ProcessQueue(QUEUES[0], 0, monotonic())
    pipeline = Pipeline(source, held, subscriptions, TopicStatistics(0.0))
    return held, asyncio.ensure_future(pipeline.run())


async def stop(task: asyncio.Future[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_pipeline_stops_at_the_limit_and_continues_when_there_is_room() -> None:
    source = Source(found(0, 1, 2, next_offset=3), found(3, next_offset=4))
    held, task = await pull(source)
    await until(lambda: held.on_room is not None)
    assert len(source.headers) == 1
    held.remove(source.messages[:1])
    assert held.on_room is not None
    held.on_room()
    await until(lambda: len(source.messages) == 4)
    assert [header.queue_offset for header in source.headers[:2]] == [0, 3]
    await stop(task)


async def test_messages_without_a_wanted_tag_are_skipped_and_committed() -> None:
    source = Source(
        found(0, next_offset=1, TAGS="BBBB"),
        Pulled(20, 9, 0, 9, "", b""),
        found(9, next_offset=10, TAGS="AaAa"),
    )
    _, task = await pull(source, Subscription("orders", "AaAa"))
    await until(lambda: len(source.passed) == 3)
    assert source.passed == [1, 9, 9]
    assert [message.tag for message in source.messages] == ["AaAa"]
    await stop(task)


async def test_a_changed_subscription_counts_for_every_message_that_was_not_pulled_yet() -> None:
    subscriptions, later = {"orders": Subscription("orders", "AaAa")}, Subscription("orders", "BBBB")

    class Held(Source):
        def next_answer(self) -> Pulled | Exception:
            subscriptions["orders"] = later
            return super().next_answer()

    # The broker held the first pull, which wants the earlier tag, and left out the message with the other one.
    source = Held(Pulled(20, 1, 0, 1, "", b""), found(0, next_offset=1, TAGS="BBBB"))
    _, task = await pull_with(source, subscriptions)
    await until(lambda: source.messages)
    assert [message.tag for message in source.messages] == ["BBBB"]
    assert [(each.subscription, each.queue_offset) for each in source.headers[:2]] == [
        ("AaAa", 0),
        ("BBBB", 0),
    ]
    await stop(task)


async def test_an_offset_that_does_not_exist_ends_the_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulling, "FAILED_SECONDS", 0.001)
    damaged = Pulled(0, 1, 0, 9, "FOUND", b"\x00\x00\x00\x10damaged")
    source = Source(NotConnected("away"), BrokerRefused(25, "old"), damaged, Pulled(21, 40, 40, 50, "", b""))
    _, task = await pull(source)
    async with asyncio.timeout(30):
        await task
    assert source.moved == [40]
    assert len(source.headers) == 4, "what fails is tried again"


async def test_messages_pulled_while_paused_are_pulled_again_later() -> None:
    source = Source(found(0, next_offset=1), found(0, next_offset=1))
    source.is_paused = True
    _, task = await pull(source)
    await until(lambda: not source.open.is_set())
    await asyncio.sleep(0.01)
    assert source.messages == []
    source.is_paused = False
    source.open.set()
    await until(lambda: len(source.messages) == 1)
    await stop(task)


async def test_an_answer_after_the_queue_was_dropped_is_ignored() -> None:
    source = Source()
    source.connected = True
    held, task = await pull(source)
    await until(lambda: source.on_answer is not None)
    held.dropped = True
    source.on_answer(found(0, next_offset=1))
    await asyncio.wait_for(task, 30)
    assert source.messages == []
    assert held.next_offset == 0
    assert len(source.headers) == 1
