"""Pull consumers: offsets controlled by the user, and polling with a share of the group's queues or assigned ones."""

import threading
from datetime import UTC, datetime

import pytest
from consuming import Served, fill, fresh, make_topic, until

from gantrymq import (
    ConfigurationError,
    ConsumeFromWhere,
    LitePullConsumer,
    Message,
    NotRunning,
    Producer,
    PullConsumer,
    PullStatus,
    PushConsumer,
    ReceivedMessage,
    blocking,
)

pytestmark = pytest.mark.anyio
FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


async def poll_all(lite: LitePullConsumer, count: int) -> list[int]:
    seen: list[int] = []
    for _ in range(600):
        seen += [int(message.body) for message in await lite.poll(0.1)]
        if len(seen) >= count:
            break
    return seen


async def test_the_user_controls_the_offsets(served: Served) -> None:
    topic, group = await make_topic(served, queues=2 // len(served.brokers)), fresh("g")
    await fill(served, topic, 10, tag="a")
    await fill(served, topic, 2, first=10, tag="b")
    consumer = PullConsumer(group, nameservers=served.nameserver)
    with pytest.raises(NotRunning):
        await consumer.queues(topic)
    async with consumer:
        queue = (await consumer.queues(topic))[0]
        found = await consumer.pull(queue, 0, max_messages=2)
        assert (found.status, found.next_offset, found.max_offset) == (PullStatus.FOUND, 2, 6)
        assert [message.queue_offset for message in found.messages] == [0, 1]
        assert (await consumer.pull(queue, 0, tags="b")).messages[0].tag == "b"
        assert (await consumer.pull(queue, 0, tags="c")).status is PullStatus.NO_MATCHED_MSG
        assert (await consumer.pull(queue, 6, wait=0.01)).status is PullStatus.NO_NEW_MSG
        wrong = await consumer.pull(queue, 99)
        assert (wrong.status, wrong.next_offset) == (PullStatus.OFFSET_ILLEGAL, 6)
        assert await consumer.committed(queue) is None or await consumer.committed(queue) == 0
        await consumer.commit(queue, 4)
        assert await consumer.committed(queue) == 4
        assert (await consumer.min_offset(queue), await consumer.max_offset(queue)) == (0, 6)
        assert await consumer.offset_at(queue, datetime(2000, 1, 1, tzinfo=UTC)) == 0
        assert await consumer.send_back(found.messages[0], delay_level=1)
        with pytest.raises(ConfigurationError, match="max_messages"):
            await consumer.pull(queue, 0, max_messages=0)


async def test_a_subscriber_shares_the_queues_and_continues_at_its_commit(served: Served) -> None:
    topic, group = await make_topic(served), fresh("g")
    await fill(served, topic, 40)

    def member(name: str, **options: bool) -> LitePullConsumer:
        lite = LitePullConsumer(
            group, nameservers=served.nameserver, instance_name=name, start=FIRST, **options
        )
        lite.subscribe(topic)
        return lite

    async with member("one", auto_commit=False) as lite:
        assert sorted(await poll_all(lite, 40)) == list(range(40))
        await lite.commit()
        await fill(served, topic, 8, first=40)
        assert sorted(await poll_all(lite, 8)) == list(range(40, 48)), "given out, but not committed"
    async with member("two") as lite:
        assert sorted(await poll_all(lite, 8)) == list(range(40, 48))
    await fill(served, topic, 4, first=48)
    async with member("three") as lite:
        assert sorted(await poll_all(lite, 4)) == list(range(48, 52)), "the one before committed by itself"
        assert await lite.poll(0.0) == []


async def test_assigned_queues_can_be_sought_and_paused(served: Served) -> None:
    topic, group = await make_topic(served, queues=2 // len(served.brokers)), fresh("g")
    await fill(served, topic, 20)
    lite = LitePullConsumer(group, nameservers=served.nameserver, start=FIRST, auto_commit=False)
    async with PullConsumer(fresh("g"), nameservers=served.nameserver) as admin:
        first, second = await admin.queues(topic)
    await lite.assign([first])
    with pytest.raises(ConfigurationError, match="use one of the two"):
        lite.subscribe(topic)
    async with lite:
        assert lite.assignment == [first]
        assert await poll_all(lite, 10) == list(range(0, 20, 2))
        assert lite.position(first) == 10
        lite.seek(first, 7)
        assert lite.position(first) == 7
        assert await poll_all(lite, 3) == [14, 16, 18]
        await lite.seek_to_begin(first)
        assert (await lite.poll(30.0, max_messages=1))[0].queue_offset == 0
        await lite.seek_to_end(first)
        assert await lite.poll(0.2) == []
        lite.seek(first, 0)
        lite.pause([first])
        assert await lite.poll(0.3) == []
        lite.resume([first])
        assert len(await poll_all(lite, 10)) == 10
        await lite.assign([first, second])
        got: list[ReceivedMessage] = []
        while len(got) < 10:
            got += await lite.poll(30.0)
        assert {message.queue for message in got} == {second}
        await lite.commit([second])
        assert await lite.committed(second) == 10
        with pytest.raises(ConfigurationError, match="not read"):
            lite.seek(second._replace(queue_id=99), 0)


async def test_users_see_names_without_the_namespace(served: Served) -> None:
    namespace, group = fresh("tenant"), fresh("g")
    async with Producer(fresh("p"), nameservers=served.nameserver, namespace=namespace) as producer:
        for number in range(4):
            await producer.send(Message("orders", b"%d" % number))
    options = {"nameservers": served.nameserver, "namespace": namespace}
    seen: list[ReceivedMessage] = []
    consumer = PushConsumer(group, start=FIRST, rebalance_interval=0.2, **options)
    consumer.subscribe("orders")
    consumer.on_messages(seen.extend, quick=True)
    async with consumer:
        await until(lambda: len(seen) == 4)
        assert "orders" in {queue.topic for queue in consumer.queues}
    assert {message.topic for message in seen} == {"orders"}
    async with PullConsumer(fresh("g"), **options) as puller:
        queues = await puller.queues("orders")
        assert {queue.topic for queue in queues} == {"orders"}
        assert sum([await puller.max_offset(queue) for queue in queues]) == 4
    lite = LitePullConsumer(group, start=FIRST, **options)
    await lite.assign(queues)
    async with lite:
        assert lite.assignment == queues
        lite.seek(seen[0].queue, 0)
        assert (await lite.poll(30.0))[0].topic == "orders"


def test_consumers_work_without_asyncio(served: Served) -> None:
    topic, group = fresh("plain"), fresh("g")
    options = {"nameservers": served.nameserver, "start": FIRST}
    with blocking.Producer(fresh("p"), nameservers=served.nameserver) as producer:
        for number in range(4):
            producer.send(Message(topic, b"%d" % number))
    seen: list[int] = []
    all_seen = threading.Event()

    def listener(messages: list[ReceivedMessage]) -> None:
        assert threading.current_thread() is not threading.main_thread()
        seen.extend(int(message.body) for message in messages)
        if len(seen) >= 4:
            all_seen.set()

    consumer = blocking.PushConsumer(group, concurrency=1, rebalance_interval=0.2, **options)
    consumer.subscribe(topic)
    consumer.on_messages(listener)
    with consumer:
        assert all_seen.wait(120)
        assert topic in {queue.topic for queue in consumer.queues}
    assert sorted(seen) == [0, 1, 2, 3]
    lite = blocking.LitePullConsumer(fresh("g"), rebalance_interval=0.2, **options)
    lite.subscribe(topic)
    got: list[ReceivedMessage] = []
    with lite:
        while len(got) < 4:
            got += lite.poll(30.0)
        lite.commit()
        assert lite.committed(got[0].queue) is not None
    with blocking.PullConsumer(fresh("g"), nameservers=served.nameserver) as puller:
        assert sum(puller.max_offset(queue) for queue in puller.queues(topic)) == 4
