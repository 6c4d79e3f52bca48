"""The HTTP producer and consumer on a real system."""

from __future__ import annotations

import time

import pytest

import gantrymq
from gantrymq.http import Consumer, GatewayRefused, LeaseExpired, Producer, blocking
from gantrymq.testing import System

pytestmark = pytest.mark.anyio
WAIT = 30


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def make_topic(system: System, topic: str, queues: int = 2) -> None:
    import httpx

    body = {"readQueues": queues, "writeQueues": queues}
    httpx.put(f"{system.http}/v1/topics/{topic}", json=body, timeout=90).raise_for_status()


async def test_a_sent_message_is_received_once_and_acknowledged(gantry_broker: System) -> None:
    make_topic(gantry_broker, "http-orders")
    message = gantrymq.Message("http-orders", b"\xff\x00", tag="paid", keys=["o-1"], properties={"x": "1"})
    async with Producer(http=gantry_broker.http, timeout=60) as producer:
        sent = await producer.send(message)
        again = await producer.send(gantrymq.Message("http-orders", b"pay"), idempotency_key="k-1")
        same = await producer.send(gantrymq.Message("http-orders", b"pay"), idempotency_key="k-1")
        with pytest.raises(GatewayRefused) as conflict:
            await producer.send(gantrymq.Message("http-orders", b"other"), idempotency_key="k-1")
    assert (again.duplicate, same.duplicate) == (False, True)
    assert (same.message_id, same.queue_offset) == (again.message_id, again.queue_offset)
    assert conflict.value.name == "IDEMPOTENCY_CONFLICT"
    async with Consumer("http-g1", "http-orders", http=gantry_broker.http, timeout=60) as consumer:
        got = {}
        while len(got) < 2:
            for one in await consumer.receive(wait=WAIT, invisible=600):
                got[one.message_id] = one
        first = got[sent.message_id]
        assert (first.body, first.tag, first.keys, first.properties) == (
            b"\xff\x00",
            "paid",
            ["o-1"],
            {"x": "1"},
        )
        assert (first.queue, first.queue_offset) == (sent.queue, sent.queue_offset)
        await consumer.extend(*got.values(), invisible=900)
        await consumer.ack(*got.values())
        await consumer.ack(first)  # done is done
        assert await consumer.receive(wait=0) == []


async def test_a_nacked_message_is_delivered_again(gantry_broker: System) -> None:
    make_topic(gantry_broker, "http-back")
    async with (
        Producer(http=gantry_broker.http, timeout=60) as producer,
        Consumer("http-g2", "http-back", "paid", http=gantry_broker.http, timeout=60) as consumer,
    ):
        await producer.send_batch(
            [gantrymq.Message("http-back", b"1", tag="paid"), gantrymq.Message("http-back", b"2", tag="open")]
        )
        [first] = await consumer.receive(wait=WAIT, invisible=600)
        await consumer.nack(first, delay=0, reason="no stock")
        [second] = await consumer.receive(wait=WAIT, invisible=600)
        assert (second.message_id, second.delivery_attempt) == (first.message_id, 2)
        with pytest.raises(LeaseExpired):
            await consumer.nack(first)
        await consumer.ack(second)


async def test_queues_and_delayed_messages(gantry_broker: System) -> None:
    make_topic(gantry_broker, "http-later", queues=1)
    async with Producer(http=gantry_broker.http, timeout=60) as producer:
        queues = await producer.queues("http-later")
        assert queues == [gantrymq.MessageQueue("http-later", name, 0) for name in ("broker-a", "broker-b")]
        later = await producer.send(gantrymq.Message("http-later", b"x", delay=3600), queue=queues[1])
        assert later.queue == queues[1]
        assert later.recall_handle
        assert await producer.cancel(later) == later.message_id
        with pytest.raises(gantrymq.NoRoute):
            await producer.send(gantrymq.Message("http-nowhere", b"x"))


def test_without_asyncio(gantry_broker: System) -> None:
    make_topic(gantry_broker, "http-plain")
    with blocking.Producer(http=gantry_broker.http, timeout=60) as producer:
        results = producer.send_batch(
            [gantrymq.Message("http-plain", str(n).encode(), sharding_key="k") for n in range(10)]
        )
        assert len({one.queue for one in results}) == 1
    until = time.monotonic() + 60
    with blocking.Consumer("http-g3", "http-plain", http=gantry_broker.http, timeout=60) as consumer:
        bodies: list[bytes] = []
        while len(bodies) < 10 and time.monotonic() < until:
            messages = consumer.receive(wait=5)
            bodies += [one.body for one in messages]
            if messages:
                consumer.ack(*messages)
        assert bodies == [str(n).encode() for n in range(10)]
