"""Consumers of the Python SDK, as parts of `sdk.py`: a prefilled topic through a push consumer, delivery at a fixed rate, rebalancing.

python bench/sdk_speed/sdk.py --only consume|deliver|rebalance
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

from gantrymq import ConsumeFromWhere, Message, MessageQueue, Producer, PushConsumer, ReceivedMessage
from gantrymq.consumer.shared.settings import ConsumerOptions
from measuring.pacing import moments
from measuring.system import System, cpu_seconds, percentile
from sdk_speed.sdk_measures import Line, Options, make_topic

PREFILLED = 200_000
FILL_BATCH = 500
RATE = 1_000
FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
MEMBER = Path(__file__).with_name("sdk_member.py")
WAIT_SECONDS = 60.0

Listener = Callable[[list[ReceivedMessage]], Coroutine[Any, Any, None]]


async def fill(system: System, topic: str, count: int, body: bytes) -> None:
    """Create a topic, and put messages into all its queues."""
    await make_topic(system, topic)
    async with Producer(
        "sdk-bench-fill", nameservers=system.nameserver, send_timeout=WAIT_SECONDS
    ) as producer:
        for _ in range(count // FILL_BATCH):
            await producer.send_batch([Message(topic, body) for _ in range(FILL_BATCH)])


async def consume_part(system: System, options: Options) -> AsyncIterator[Line]:
    """Measure an empty listener on a prefilled topic: one message a call, then batches of 32; then a plain function in the loop and in threads."""
    topic = "SdkConsume"
    await fill(system, topic, PREFILLED, bytes(options.body))
    kinds: list[tuple[str, str, int]] = [
        ("consume, one a call", "coroutine", 1),
        ("consume, batches of 32", "coroutine", 32),
        ("consume, quick function, one a call", "quick", 1),
        ("consume, function in threads, batches of 32", "thread", 32),
    ]
    for number, (what, kind, batch_size) in enumerate(kinds):
        yield await consume(system, f"sdk-bench-{number}", topic, what, kind, batch_size)


async def consume(
    system: System,
    group: str,
    topic: str,
    what: str,
    kind: str,
    batch_size: int,
    total: int = PREFILLED,
    floor: float | None = None,
) -> Line:
    """Receive a filled topic with a listener of one kind that only counts; from the first message to the last."""
    left = total
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    began: list[float] = []

    def count(messages: list[ReceivedMessage]) -> None:
        nonlocal left
        if not began:
            began.extend((time.perf_counter(), time.process_time(), cpu_seconds(system.store_pid)))
        left -= len(messages)
        if left <= 0:
            loop.call_soon_threadsafe(done.set)

    async def listener(messages: list[ReceivedMessage]) -> None:
        count(messages)

    chosen: ConsumerOptions = {
        "nameservers": system.nameserver,
        "start": FIRST,
        "batch_size": batch_size,
        "concurrency": 1 if kind == "thread" else 20,  # counted without a lock
    }
    consumer = PushConsumer(group, **chosen)
    consumer.subscribe(topic)
    consumer.on_messages(listener if kind == "coroutine" else count, quick=kind == "quick")
    async with consumer, asyncio.timeout(WAIT_SECONDS):
        await done.wait()
        took = time.perf_counter() - began[0]
        own, broker = time.process_time() - began[1], cpu_seconds(system.store_pid) - began[2]
    each = 1e6 / total
    return Line(what, total / took, own * each, broker * each, floor=floor)


async def deliver_part(system: System, options: Options) -> AsyncIterator[Line]:
    """Produce at a fixed rate, and measure when the listener has each message: one process does both."""
    topic, late = "SdkDeliver", list[float]()
    await fill(system, topic, 0, b"made")

    async def listener(messages: list[ReceivedMessage]) -> None:
        now = time.perf_counter()
        late.extend(now - float(message.body[:20]) for message in messages if message.body[:1].isdigit())

    consumer = PushConsumer("sdk-bench-deliver", nameservers=system.nameserver, start=FIRST)
    consumer.subscribe(topic)
    consumer.on_messages(listener)
    async with consumer, Producer("sdk-bench", nameservers=system.nameserver, send_timeout=30.0) as producer:
        await asyncio.sleep(2.0)
        own, broker = time.process_time(), cpu_seconds(system.store_pid)
        sent = 0
        async for _ in moments(RATE, options.seconds):
            text = f"{time.perf_counter():020.9f}".encode()
            producer.send_soon(Message(topic, text.ljust(options.body, b".")))
            sent += 1
        await asyncio.sleep(1.0)
        own, broker = time.process_time() - own, cpu_seconds(system.store_pid) - broker
    late.sort()
    if len(late) != sent:
        raise SystemExit(f"{len(late)} of {sent} messages arrived")
    for share in (0.5, 0.99):
        value = percentile(late, share) * 1000
        yield Line(f"deliver.p{share * 100:g}", value, own / sent * 1e6, broker / sent * 1e6, unit="ms")


async def rebalance_part(system: System, options: Options) -> AsyncIterator[Line]:
    """Measure how long the queues of a killed or leaving member are idle: from its end to the first message that another one gets from them."""
    del options
    for way in ("killed", "left"):
        topic = f"SdkRebalance-{way}"
        await fill(system, topic, 0, b"made")
        yield Line(f"rebalance, {way}", await _gap_ms(system, topic, kill=way == "killed"), unit="ms")


async def _gap_ms(system: System, topic: str, *, kill: bool) -> int:
    group = f"sdk-bench-{topic}"
    seen: dict[MessageQueue, float] = {}

    async def listener(messages: list[ReceivedMessage]) -> None:
        for message in messages:
            seen[message.queue] = time.perf_counter()

    member = await asyncio.create_subprocess_exec(
        sys.executable, str(MEMBER), system.nameserver, group, topic, stdout=asyncio.subprocess.PIPE
    )
    consumer = PushConsumer(group, nameservers=system.nameserver, start=FIRST)
    consumer.subscribe(topic)
    consumer.on_messages(listener)
    try:
        async with (
            consumer,
            Producer("sdk-bench", nameservers=system.nameserver, send_timeout=30.0) as producer,
            asyncio.timeout(WAIT_SECONDS),
        ):
            queues = await producer.queues(topic)
            while (
                not 0
                < len({queue.queue_id for queue in consumer.queues if queue.topic == topic})
                < len(queues)
            ):
                await asyncio.sleep(0.05)
            mine = {queue.queue_id for queue in consumer.queues if queue.topic == topic}
            for _ in range(50):
                await asyncio.gather(*[producer.send(Message(topic, b"x"), queue=queue) for queue in queues])
            if kill:
                member.kill()
            else:
                member.terminate()
            ended = time.perf_counter()
            if kill:
                await member.wait()
            while {queue.queue_id for queue, when in seen.items() if when > ended} | mine != {
                queue.queue_id for queue in queues
            }:
                await asyncio.gather(*[producer.send(Message(topic, b"x"), queue=queue) for queue in queues])
                await asyncio.sleep(0.005)
            return round((time.perf_counter() - ended) * 1000)
    finally:
        if member.returncode is None:
            member.kill()
            await member.wait()
