"""Consumers between brokers that answer as the test says: returns and their fallback, rebalance, locks, the pipeline of a queue."""

import asyncio
from collections.abc import Sequence
from time import monotonic

import pytest
from received import received, record_bytes

from gantry.consumer import holding as holding_module
from gantry.consumer import pulling, returning
from gantry.consumer.flow import FlowLimits
from gantry.consumer.holding import Holding
from gantry.consumer.locking import Locks
from gantry.consumer.offsets import OffsetTable
from gantry.consumer.process_queue import ProcessQueue
from gantry.consumer.pulling import Pipeline
from gantry.consumer.rebalancing import Rebalancer
from gantry.consumer.returning import Failed, Returning
from gantry.consumer.settings import ConsumerSettings
from gantry.consumer.statistics import TopicStatistics
from gantry.consumer.strategies import Averagely
from gantry.consumer.subscriptions import Subscription
from gantry.errors import NoRoute
from gantry.message import MessageQueue, ReceivedMessage
from gantry_link.errors import BrokerRefused, NotConnected
from gantry_link.store_client import Pulled
from gantry_wire import cluster_bodies
from gantry_wire.body import decode_body, encode_body
from gantry_wire.client_bodies import LockBatchRequestBody, LockBatchResponseBody
from gantry_wire.command import Command

pytestmark = pytest.mark.anyio
ALL = Subscription("orders")
QUEUES = [MessageQueue("orders", "broker-a", n) for n in range(4)]


async def until(condition) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.001)


# Messages on their way back


class Shop:
    """A broker that takes back, and takes new messages, or not."""

    def __init__(self, *, takes_back: bool = True, takes_new: bool = True) -> None:
        self.takes_back, self.takes_new = takes_back, takes_new
        self.back, self.new = [], []

    def store(self, broker: str):
        return self

    async def publish_queues(self, topic: str) -> list[MessageQueue]:
        return [MessageQueue(topic, "broker-a", 0)]

    async def ask(self, code, header, body=b"", **_):
        if not self.takes_back:
            raise BrokerRefused(1, "look message by offset failed, 0")
        self.back.append(header)

    async def send(self, header, body):
        if not self.takes_new:
            raise NotConnected("gone")
        self.new.append((header, body))


async def return_one(shop: Shop, *, level: int = 0, reconsumed: int = 0):
    message = received(7, b"body", reconsumed=reconsumed, UNIQ_KEY="U1", KEYS="k", TRAN_MSG="true")
    gone, again = [], []
    returns = Returning(shop, "g", 16, lambda queue, ms: gone.extend(ms), lambda queue, ms: again.extend(ms))
    working = asyncio.ensure_future(returns.run())
    returns.put(Failed(ProcessQueue(QUEUES[0], 0, 0.0), [message], level, "it failed"))
    await until(lambda: not returns.is_busy and (gone or again or returns._later))
    return message, gone, again, returns, working


async def end(returns: Returning, working: asyncio.Future[None]) -> None:
    returns.close()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)


async def test_a_failed_message_goes_back_to_its_broker() -> None:
    shop = Shop()
    message, gone, again, *rest = await return_one(shop, level=5)
    header = shop.back[0]
    assert (gone, again, shop.new) == ([message], [], [])
    assert (header.offset, header.group, header.delay_level, header.reason) == (7000, "g", 5, "it failed")
    assert (header.origin_msg_id, header.origin_topic, header.max_reconsume_times) == ("U1", "orders", 16)
    await end(*rest)


async def test_what_the_broker_cannot_take_back_is_sent_to_the_retry_topic() -> None:
    shop = Shop(takes_back=False)
    message, gone, _, *rest = await return_one(shop, reconsumed=2)
    header, body = shop.new[0]
    properties = dict(part.split("\x01") for part in header.properties.split("\x02") if part)
    assert gone == [message]
    assert (header.topic, header.reconsume_times, header.max_reconsume_times, body) == (
        "%RETRY%g",
        3,
        16,
        b"body",
    )
    assert (properties["RETRY_TOPIC"], properties["DELAY"], properties["RECONSUME_TIME"]) == (
        "orders",
        "5",
        "3",
    )
    assert properties["ORIGIN_MESSAGE_ID"] == message.offset_message_id
    assert "TRAN_MSG" not in properties
    await end(*rest)


async def test_what_nobody_takes_is_consumed_here_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(returning, "LOCAL_RETRY_SECONDS", 0.01)
    message, gone, again, *rest = await return_one(Shop(takes_back=False, takes_new=False))
    await until(lambda: again == [message])
    assert (gone, message.reconsume_times) == ([], 1)
    await end(*rest)


# Rebalance


class Group:
    """A cluster of two brokers, and who is in the group."""

    client_id = "me"

    def __init__(self) -> None:
        self.ids: list[str] | None = ["me"]
        self.topics = {"orders": QUEUES}
        self.heartbeats = 0
        self.hands: set[MessageQueue] = set()

    async def subscribe_queues(self, topic: str) -> list[MessageQueue]:
        if topic not in self.topics:
            raise NoRoute("unknown")
        return self.topics[topic]

    def store(self, broker: str):
        return self

    async def consumer_ids(self, group: str) -> list[str]:
        if self.ids is None:
            raise NotConnected("away")
        return self.ids

    def heartbeat_soon(self) -> None:
        self.heartbeats += 1

    def topics_held(self) -> set[str]:
        return {queue.topic for queue in self.hands}

    def held(self, topic: str) -> list[MessageQueue]:
        return [queue for queue in self.hands if queue.topic == topic]

    async def take(self, queues: Sequence[MessageQueue]) -> bool:
        self.hands.update(queues)
        return True

    async def drop(self, queues) -> None:
        self.hands.difference_update(queues)


class Hands:
    """The same, as the rebalancer's holder."""

    def __init__(self, group: Group) -> None:
        self.topics, self.held, self.take, self.drop = group.topics_held, group.held, group.take, group.drop


async def test_queues_follow_the_members_and_stay_while_nobody_knows_better() -> None:
    group = Group()
    subscriptions = {"orders": Subscription("orders")}
    rebalancer = Rebalancer(group, Hands(group), "g", subscriptions, Averagely(), 20.0)
    assert await rebalancer.balance()
    assert group.hands == set(QUEUES)
    group.ids = ["me", "other"]
    assert await rebalancer.balance()
    assert group.hands == set(QUEUES[:2])
    group.ids = None
    assert not await rebalancer.balance(), "the broker is away: to be tried again soon"
    assert group.hands == set(QUEUES[:2])
    group.ids = ["other"]
    assert not await rebalancer.balance(), "the broker does not know us: a heartbeat, and again"
    assert (group.heartbeats, group.hands) == (1, set(QUEUES[:2]))
    subscriptions["new"] = Subscription("new")
    group.ids = ["me"]
    assert not await rebalancer.balance(), "a topic that does not exist yet holds nothing up"
    assert group.hands == set(QUEUES)
    del subscriptions["orders"], subscriptions["new"]
    assert await rebalancer.balance()
    assert group.hands == set()


async def test_a_rebalance_comes_at_once_when_it_is_wanted() -> None:
    group = Group()
    rebalancer = Rebalancer(group, Hands(group), "g", {"orders": Subscription("orders")}, None, 3600.0)
    running = asyncio.ensure_future(rebalancer.run())
    await until(lambda: len(group.hands) == 4)
    group.topics["orders"] = QUEUES[:1]
    rebalancer.soon()
    await until(lambda: len(group.hands) == 1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


# Queues in hand, and their locks


class LockKeeper:
    """A broker that gives locks, or not, and knows no offsets."""

    def __init__(self) -> None:
        self.free = set(QUEUES)
        self.away = False
        self.unlocked: list[MessageQueue] = []

    def store(self, broker: str):
        return self

    async def ask(self, code, header, body, **_):
        if self.away:
            raise NotConnected("away")
        wanted = decode_body(body, LockBatchRequestBody).mq_set
        queues = [MessageQueue(each.topic, each.broker_name, each.queue_id) for each in wanted]
        if code == 42:
            self.unlocked += queues
        ok = [
            cluster_bodies.MessageQueue(topic=queue.topic, broker_name=queue.broker, queue_id=queue.queue_id)
            for queue in queues
            if queue in self.free
        ]
        return Command(body=encode_body(LockBatchResponseBody(lock_ok_mq_set=ok)))


class Notes:
    """An offset store that begins everything at 5."""

    def __init__(self) -> None:
        self.table = OffsetTable()
        self.reads: list[MessageQueue] = []
        self.writes: list[set[MessageQueue]] = []

    async def read(self, queue: MessageQueue) -> int:
        self.reads.append(queue)
        return 5

    async def write(self, only=None, *, wait: bool = False) -> None:
        self.writes.append(set(only or ()))


async def test_a_lost_lock_ends_the_work_and_the_offset_is_read_again_with_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keeper, notes = LockKeeper(), Notes()

    async def nothing() -> None:
        await asyncio.sleep(3600)

    locks = Locks("g", "me", keeper.store)
    held = Holding(keeper, "g", ConsumerSettings(orderly=True), notes, locks, lambda queue: [nothing()])
    keeper.free.discard(QUEUES[3])
    assert not await held.take(QUEUES), "one is locked by another member"
    assert set(held.queues) == set(QUEUES[:3])
    assert all(each.next_offset == 5 and each.has_valid_lock(monotonic()) for each in held.queues.values())
    first = held.queues[QUEUES[0]]
    keeper.free.discard(QUEUES[0])
    assert await held.renew_locks()
    assert first.dropped
    assert QUEUES[0] not in held.queues
    keeper.away = True
    assert not await held.renew_locks(), "an answer that does not come takes no lock away"
    keeper.away = False
    keeper.free.add(QUEUES[0])
    notes.reads.clear()
    assert await held.take([QUEUES[0]])
    assert notes.reads == [QUEUES[0]]
    monkeypatch.setattr(holding_module, "LOCK_KEPT_SECONDS", 0.0)
    assert await held.renew_locks(), "after so long another member may have had it"
    assert held.queues == {}
    await held.take(QUEUES[:2])
    await held.drop(QUEUES[:2])
    assert (notes.writes[-1], keeper.unlocked, held.queues) == (set(QUEUES[:2]), QUEUES[:2], {})
    await held.close()


# The pipeline of one queue


class Source:
    """A consumer that a pipeline pulls for, and its broker."""

    group, namespace, orderly, pull_batch_size, pull_interval, hold_seconds = "g", "", False, 32, 0.0, 1.0
    flow = FlowLimits(messages_max=2)

    def __init__(self, *answers: Pulled | Exception) -> None:
        self.filters = []
        self.open = asyncio.Event()
        self.open.set()
        self.answers = list(answers)
        self.headers, self.moved, self.passed = [], [], []
        self.messages: list[ReceivedMessage] = []
        self.is_paused = False

    def gate(self, queue: ProcessQueue) -> asyncio.Event:
        return self.open

    def store_to_pull(self, broker: str):
        return self

    async def pull(self, header, *, timeout_seconds: float) -> Pulled:
        self.headers.append(header)
        if not self.answers:
            await asyncio.sleep(3600)
        answer = self.answers.pop(0)
        if self.is_paused:
            self.open.clear()
        if isinstance(answer, Exception):
            raise answer
        return answer

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


async def pull(source: Source, subscription: Subscription = ALL):
    held = ProcessQueue(QUEUES[0], 0, monotonic())
    pipeline = Pipeline(source, held, subscription, TopicStatistics(0.0))
    return held, asyncio.ensure_future(pipeline.run())


async def stop(task: asyncio.Future[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_pipeline_stops_at_the_limit_and_goes_on_when_there_is_room() -> None:
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


async def test_what_no_tag_of_ours_has_is_passed_over_and_committed() -> None:
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


async def test_an_offset_that_does_not_exist_ends_the_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulling, "FAILED_SECONDS", 0.001)
    damaged = Pulled(0, 1, 0, 9, "FOUND", b"\x00\x00\x00\x10damaged")
    source = Source(NotConnected("away"), BrokerRefused(25, "old"), damaged, Pulled(21, 40, 40, 50, "", b""))
    _, task = await pull(source)
    async with asyncio.timeout(30):
        await task
    assert source.moved == [40]
    assert len(source.headers) == 4, "what fails is tried again"


async def test_what_a_pull_brings_while_paused_is_pulled_again_later() -> None:
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
