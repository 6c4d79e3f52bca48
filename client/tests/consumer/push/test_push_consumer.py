"""Push consumers on a real system: everything is consumed, failed messages are delivered again, order is kept, queues change hands."""

import asyncio
import logging
import re
import threading
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from consuming import Served, client_of, fill, fresh, make_topic, until

from gantry_wire.bodies.consumers import ConsumeMessageDirectlyResult, ConsumerRunningInfo, DirectResult
from gantry_wire.bodies.json_body import decode_body
from gantry_wire.codes import RequestCode
from gantry_wire.headers.admin import ResetOffsetHeader
from gantry_wire.headers.messages import ConsumeDirectlyHeader, ConsumerRunningInfoHeader
from gantrymq import (
    ConfigurationError,
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeResult,
    ConsumerState,
    MessageModel,
    PushConsumer,
    ReceivedMessage,
)

pytestmark = pytest.mark.anyio
FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
MOVED = re.compile("are reset|continuing at")
"""Brokers push a reset to the members (220), or answer the next pull with it."""


def consumer_of(
    system: Served, group: str, topic: str, expression: str = "*", **options: object
) -> PushConsumer:
    consumer = PushConsumer(group, **{"nameservers": system.nameserver, "start": FIRST, **options})  # type: ignore[arg-type]
    consumer.subscribe(topic, expression)
    return consumer


def number(message: ReceivedMessage) -> int:
    return int(message.body)


@pytest.mark.parametrize("way", ["coroutine", "waiting", "quick", "thread"])
async def test_each_kind_of_listener_consumes_its_messages_and_commits_them(served: Served, way: str) -> None:
    topic, group = await make_topic(served), fresh("g")
    await fill(served, topic, 40, tag="paid")
    await fill(served, topic, 20, first=40, tag="open")
    seen: list[int] = []

    async def coroutine(messages: list[ReceivedMessage]) -> None:
        seen.extend(map(number, messages))

    async def waiting(messages: list[ReceivedMessage], context: ConsumeContext) -> ConsumeResult:
        await asyncio.sleep(0.001)
        assert messages[0].queue == context.queue
        seen.extend(map(number, messages))
        return ConsumeResult.SUCCESS

    def plain(messages: list[ReceivedMessage]) -> None:
        seen.extend(map(number, messages))

    consumer = consumer_of(served, group, topic, "paid", batch_size=3)
    listener = {"coroutine": coroutine, "waiting": waiting}.get(way, plain)
    consumer.on_messages(listener, quick=way == "quick")
    async with consumer:
        await until(lambda: len(seen) >= 40)
        await until(lambda: len(consumer.queues) == 3 * len(served.brokers))  # the retry topic's too
        held = [queue for queue in consumer.queues if queue.topic == topic]
    assert sorted(seen) == list(range(40))
    async with client_of(served) as client:
        await client.route(topic)
        ends = [await client.store(q.broker).max_offset(q.topic, q.queue_id) for q in held]
        kept = [await client.store(q.broker).consumer_offset(group, q.topic, q.queue_id) for q in held]
    assert kept == ends, "what was passed over is committed too"


async def test_a_failed_message_is_delivered_again_with_its_topic_and_the_rest_is_done(
    served: Served,
) -> None:
    topic, group = await make_topic(served, queues=1), fresh("g")
    await fill(served, topic, 6)
    tries: dict[int, list[int]] = defaultdict(list)
    topics: set[str] = set()

    def listener(messages: list[ReceivedMessage], context: ConsumeContext) -> None:
        context.delay_level = 1
        for index, message in enumerate(messages):
            topics.add(message.topic)
            tries[number(message)].append(message.reconsume_times)
            if number(message) % 2 and not message.reconsume_times:
                context.ack_index = index - 1
                return

    consumer = consumer_of(served, group, topic, batch_size=1)
    consumer.on_messages(listener)
    async with consumer:
        await until(lambda: sum(map(len, tries.values())) >= 9)
    assert dict(tries) == {n: [0, 1] if n % 2 else [0] for n in range(6)}
    assert topics == {topic}


async def test_a_raising_listener_does_not_block_others_and_its_messages_become_dead_letters(
    served: Served,
) -> None:
    topic, group = await make_topic(served, queues=1), fresh("g")
    await fill(served, topic, 4)
    seen: list[int] = []

    async def listener(messages: list[ReceivedMessage], context: ConsumeContext) -> None:
        context.delay_level = -1
        if number(messages[0]) == 1:
            raise RuntimeError("one is none")
        seen.extend(map(number, messages))

    consumer = consumer_of(served, group, topic)
    consumer.on_messages(listener)
    dead: list[ReceivedMessage] = []
    async with consumer:
        await until(lambda: len(seen) == 3)
        undertaker = consumer_of(served, fresh("g"), f"%DLQ%{group}", rebalance_interval=0.2)
        undertaker.on_messages(dead.extend, quick=True)
        async with undertaker:
            await until(lambda: len(dead) >= 1)
    assert [number(message) for message in dead][:1] == [1]
    reason = dead[0].properties.get("__GANTRY_DLQ_REASON")
    assert reason is None or "one is none" in reason, "Gantry keeps the reason; RocketMQ knows none"


async def test_orderly_consumers_keep_the_order_while_queues_change_hands(served: Served) -> None:
    topic, group = await make_topic(served, queues=2), fresh("g")
    count = 2 * len(served.brokers)
    seen: dict[tuple[str, int], list[int]] = defaultdict(list)
    failed: set[int] = set()

    async def listener(messages: list[ReceivedMessage]) -> None:
        for message in messages:
            if number(message) % 10 == 3 and number(message) not in failed:
                failed.add(number(message))
                raise RuntimeError("not yet")
            seen[message.queue.broker, message.queue.queue_id].append(number(message))
        await asyncio.sleep(0.001)

    members = [
        consumer_of(served, group, topic, orderly=True, suspend_seconds=0.01, instance_name=name)
        for name in ("one", "two")
    ]
    for member in members:
        member.on_messages(listener)
    async with members[0]:
        await fill(served, topic, 60)
        async with members[1]:
            await until(lambda: 0 < len([q for q in members[1].queues if q.topic == topic]) < count)
            await fill(served, topic, 60, first=60)
            await until(lambda: sum(map(len, seen.values())) >= 120)
        await until(lambda: len([q for q in members[0].queues if q.topic == topic]) == count)
        await fill(served, topic, 20, first=120)
        await until(lambda: sum(map(len, seen.values())) >= 140)
    assert len(failed) == 14
    for of_queue in seen.values():
        assert of_queue == sorted(of_queue), "orderly, and nothing twice: no member died"
    assert sum(map(len, seen.values())) == 140


async def test_broadcasting_members_each_get_all_and_continue_at_the_offsets_in_their_file(
    served: Served, tmp_path: Path
) -> None:
    topic, group = await make_topic(served, queues=1), fresh("g")
    await fill(served, topic, 10)
    seen: dict[str, list[int]] = defaultdict(list)

    def member(name: str) -> PushConsumer:
        consumer = consumer_of(
            served,
            group,
            topic,
            model=MessageModel.BROADCASTING,
            instance_name=name,
            offsets_dir=tmp_path,
        )
        consumer.on_messages(lambda messages: seen[name].extend(map(number, messages)), quick=True)
        return consumer

    async with member("one"), member("two"):
        await until(lambda: len(seen["one"]) >= 10 and len(seen["two"]) >= 10)
    await fill(served, topic, 4, first=10)
    async with member("one"):
        await until(lambda: len(seen["one"]) >= 14)
    assert sorted(seen["one"]) == list(range(14))
    assert sorted(seen["two"]) == list(range(10))


async def test_a_consumer_refuses_calls_in_the_wrong_state(served: Served) -> None:
    topic, group = await make_topic(served, queues=1), fresh("g")
    consumer = consumer_of(served, group, topic)
    with pytest.raises(ConfigurationError, match="listener"):
        await consumer.start()
    consumer.on_messages(lambda messages: None, quick=True)
    with pytest.raises(ConfigurationError, match="topic"):
        await consumer_without_topic(served).start()
    assert consumer.state is ConsumerState.CREATE_JUST
    async with consumer:
        assert consumer.state is ConsumerState.RUNNING
        second = consumer_of(served, group, topic)
        second.on_messages(lambda messages: None, quick=True)
        with pytest.raises(ConfigurationError, match=r"already has a .* in this process"):
            await second.start()
        assert second.state is ConsumerState.START_FAILED
    assert consumer.state is ConsumerState.SHUTDOWN_ALREADY
    with pytest.raises(ConfigurationError, match="once"):
        await consumer.start()


def consumer_without_topic(system: Served) -> PushConsumer:
    consumer = PushConsumer(fresh("g"), nameservers=system.nameserver)
    consumer.on_messages(lambda messages: None, quick=True)
    return consumer


async def test_members_with_different_subscriptions_log_an_error(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    topic, group = await make_topic(served, queues=1), fresh("g")
    members = [
        consumer_of(served, group, topic, tag, instance_name=tag, rebalance_interval=0.2)
        for tag in ("paid", "open")
    ]
    for member in members:
        member.on_messages(lambda messages: None, quick=True)
    with caplog.at_level(logging.ERROR, "gantrymq"):
        async with members[0], members[1]:
            await until(lambda: "DIFFERENT SUBSCRIPTIONS" in caplog.text)
    assert "'paid'" in caplog.text
    assert "'open'" in caplog.text


async def test_tools_see_move_and_use_a_consumer(served: Served) -> None:
    topic, group = await make_topic(served, queues=1), fresh("g")
    await fill(served, topic, 10)
    seen: list[ReceivedMessage] = []
    consumer = consumer_of(served, group, topic)
    consumer.on_messages(seen.extend, quick=True)
    async with consumer, client_of(served) as client:
        await until(lambda: len(seen) == 10)
        await until(lambda: len(consumer.queues) == 2 * len(served.brokers))  # the retry topic's too
        await client.route(topic)
        store = client.store(seen[0].broker)
        info_header = ConsumerRunningInfoHeader(
            consumer_group=group, client_id=consumer.client_id, jstack_enable=True
        )
        answer = await store.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, info_header)
        info = decode_body(answer.body, ConsumerRunningInfo)
        assert sorted((key.topic, key.queue_id) for key in info.mq_table) == [
            (q.topic, q.queue_id) for q in consumer.queues
        ]
        assert "thread" in (info.jstack or "")
        directly = ConsumeDirectlyHeader(
            consumer_group=group, client_id=consumer.client_id, msg_id=seen[0].offset_message_id,
            broker_name=seen[0].broker,
        )  # fmt: skip
        answer = await store.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, directly)
        result = decode_body(answer.body, ConsumeMessageDirectlyResult)
        assert result.consume_result is DirectResult.CR_SUCCESS
        await until(lambda: len(seen) == 11)
        for address in served.brokers:
            header = ResetOffsetHeader(topic=topic, group=group, timestamp=0, is_force=True)
            await client.store_at(address).reset_offsets(header)
        await until(lambda: len(seen) == 21)
    assert sorted(map(number, seen[11:])) == list(range(10))


@pytest.mark.parametrize("way", ["coroutine", "thread"])
async def test_a_reset_drops_messages_that_waited_before_it(
    served: Served, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    """What waits for the listener is dropped with the old offset: only calls that run at the reset are made twice."""
    topic, group, count, workers = await make_topic(served, queues=1), fresh("g"), 120, 3
    await fill(served, topic, count)
    gate, seen = threading.Event(), list[int]()

    def block(messages: list[ReceivedMessage]) -> None:
        seen.extend(map(number, messages))
        assert gate.wait(100)

    async def wait(messages: list[ReceivedMessage]) -> None:
        seen.extend(map(number, messages))
        while not gate.is_set():
            await asyncio.sleep(0.005)

    consumer = consumer_of(served, group, topic, concurrency=workers)
    consumer.on_messages(block if way == "thread" else wait)
    with caplog.at_level(logging.WARNING, "gantrymq"):
        async with consumer, client_of(served) as client:
            await until(lambda: len(seen) == workers)
            under_way = Counter(seen)
            for address in served.brokers:
                header = ResetOffsetHeader(topic=topic, group=group, timestamp=0, is_force=True)
                await client.store_at(address).reset_offsets(header)
            await until(lambda: len(MOVED.findall(caplog.text)) == len(served.brokers))
            gate.set()
            await until(lambda: len(set(seen)) == count and len(seen) >= count + workers)
    assert Counter(seen) == Counter(range(count)) + under_way


async def test_pause_stops_pulls_and_resume_continues(served: Served) -> None:
    topic, group = await make_topic(served, queues=1), fresh("g")
    seen: list[int] = []
    consumer = consumer_of(served, group, topic, hold_seconds=0.1)
    consumer.on_messages(lambda messages: seen.extend(map(number, messages)), quick=True)
    async with consumer:
        await until(lambda: len(consumer.queues) == 2 * len(served.brokers))  # the retry topic's too
        consumer.pause()
        await asyncio.sleep(0.5)  # what was on its way may still come
        await fill(served, topic, 4)
        await asyncio.sleep(0.5)
        assert seen == []
        consumer.resume()
        await until(lambda: len(seen) == 4)
