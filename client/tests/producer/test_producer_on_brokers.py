"""Producers on a real system: Gantry's, or RocketMQ's brokers behind SDK_NAMESERVER."""

import asyncio
import contextlib
import threading
import time

import pytest

import gantrymq
from gantry_wire.headers.admin import CreateTopicHeader
from gantry_wire.headers.messages import PullHeader
from gantry_wire.records.message_record import scan_records
from gantrymq import (
    Message,
    Producer,
    ReceivedMessage,
    TransactionProducer,
    TransactionState,
    blocking,
    by_hash,
    reply_to,
)
from gantrymq.connection.instance import ClientInstance
from gantrymq.settings import client_settings

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]
LONG = {"send_timeout": 60.0, "request_timeout": 60.0}


@contextlib.asynccontextmanager
async def reading(nameserver):
    """Give a function that returns all messages of a topic, queue by queue, once there are `count`."""
    instance = await ClientInstance.acquire(
        client_settings({"nameservers": nameserver, "instance_name": "reader"})
    )

    async def pulled(queue):
        header = PullHeader(
            consumer_group="reader", topic=queue.topic, queue_id=queue.queue_id, queue_offset=0, max_msg_nums=32, sys_flag=4,
            subscription="*",
        )  # fmt: skip
        answer = await instance.store(queue.broker).pull(header, timeout_seconds=60)
        return [ReceivedMessage(record, queue.broker) for record in scan_records(answer.records)]

    async def read(topic, count):
        async with asyncio.timeout(120):
            while True:
                with contextlib.suppress(
                    gantrymq.NoRoute
                ):  # a broker registers a topic soon after it created it
                    await instance.route(topic, fresh=True)
                    found = [
                        m for queue in await instance.subscribe_queues(topic) for m in await pulled(queue)
                    ]
                    if len(found) >= count:
                        return found
                await asyncio.sleep(0.05)

    try:
        yield read
    finally:
        await instance.release()


async def create_topic(system, topic, queues):
    """Make a topic on every broker, and wait until the nameserver knows it."""
    settings = client_settings({"nameservers": system.nameserver, "instance_name": "admin"})
    instance = await ClientInstance.acquire(settings)
    header = CreateTopicHeader(
        topic=topic,
        default_topic="TBW102",
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=6,
        topic_filter_type="SINGLE_TAG",
    )
    try:
        for broker in system.brokers:
            await instance.store_at(broker).create_topic(header)
        async with asyncio.timeout(120):
            while len(await known_queues(instance, topic)) < queues * len(system.brokers):
                await asyncio.sleep(0.05)
    finally:
        await instance.release()


async def known_queues(instance, topic):
    """Return the queues the nameserver knows now."""
    with contextlib.suppress(gantrymq.NoRoute):
        await instance.route(topic, fresh=True)
        return await instance.subscribe_queues(topic)
    return []


async def test_a_sent_message_is_stored_as_given(served):
    servers = served.nameserver
    large = b"large " * 2000
    async with reading(servers) as read, Producer("pg-plain", nameservers=servers, **LONG) as producer:
        result = await producer.send(
            Message("sdk-plain", b"hello", tag="paid", keys=["o-1", "o-2"], properties={"who": "me"}, flag=7)
        )
        await producer.send(Message("sdk-plain", large))
        await producer.send_oneway(Message("sdk-plain", b"oneway"))
        batch = await producer.send_batch([Message("sdk-plain", b"b%d" % n, tag=f"t{n}") for n in range(3)])
        found = {message.body: message for message in await read("sdk-plain", 6)}
        hello = found[b"hello"]
        assert (hello.tag, hello.keys, hello.properties["who"], hello.flag) == (
            "paid",
            ["o-1", "o-2"],
            "me",
            7,
        )
        assert (hello.message_id, hello.offset_message_id) == (result.message_id, result.offset_message_id)
        assert (hello.queue, hello.queue_offset) == (result.queue, result.queue_offset)
        assert len(found[large].record.body) < len(large)
        for n, result in enumerate(batch):
            stored = found[b"b%d" % n]
            assert (stored.tag, stored.message_id) == (f"t{n}", result.message_id)
            assert (stored.queue, stored.queue_offset, stored.offset_message_id) == (
                result.queue, result.queue_offset, result.offset_message_id,
            )  # fmt: skip


async def test_keys_keep_their_queue_and_all_queues_of_both_brokers_are_used(served):
    servers = served.nameserver
    await create_topic(served, "sdk-queues", queues=4)
    async with Producer("pg-queues", nameservers=servers, **LONG) as producer:
        spread = {(await producer.send(Message("sdk-queues", b"x"))).queue for _ in range(24)}
        assert spread == set(await producer.queues("sdk-queues"))
        assert len(spread) == 4 * len(served.brokers)
        by_key = [await producer.send(Message("sdk-queues", b"x", sharding_key="order-7")) for _ in range(3)]
        chosen = await producer.send(Message("sdk-queues", b"x"), selector=by_hash, argument="order-7")
        assert len({result.queue for result in [*by_key, chosen]}) == 1
        wanted = min(spread)
        assert (await producer.send(Message("sdk-queues", b"x"), queue=wanted)).queue == wanted


async def test_a_delayed_message_is_delivered_later_and_a_cancelled_one_never(served):
    servers = served.nameserver
    async with reading(servers) as read, Producer("pg-delay", nameservers=servers, **LONG) as producer:
        await producer.send(Message("sdk-delay", b"now"))
        cancelled = await producer.send(Message("sdk-delay", b"never", delay=3))
        assert await producer.cancel(cancelled) == cancelled.message_id
        due_ms = int(time.time() * 1000) + 3500
        await producer.send(Message("sdk-delay", b"at", deliver_at=due_ms))
        await producer.send(Message("sdk-delay", b"level", delay_level=1))
        found = {message.body: message for message in await read("sdk-delay", 3)}
        assert set(found) == {b"now", b"level", b"at"}
        assert found[b"at"].store_timestamp_ms >= due_ms - 1000  # instants are kept to the second
        plain = await producer.send(Message("sdk-delay", b"x"))
        with pytest.raises(gantrymq.InvalidMessage, match="only messages sent for an instant"):
            await producer.cancel(plain)


async def test_a_consumer_answers_a_request(served):
    servers = served.nameserver
    async with reading(servers) as read, Producer("pg-ask", nameservers=servers, **LONG) as producer:
        await producer.send(Message("sdk-ask", b"makes the topic"))
        asked = asyncio.ensure_future(producer.request(Message("sdk-ask", b"what?", tag="q"), timeout=60))
        request = next(message for message in await read("sdk-ask", 2) if message.tag == "q")
        async with Producer("pg-answer", nameservers=servers, instance_name="other", **LONG) as other:
            await other.send(reply_to(request, b"that"))
        assert (await asked).body == b"that"
        with pytest.raises(gantrymq.TimedOut, match="no consumer has answered"):
            await producer.request(Message("sdk-ask", b"hello?"), timeout=1.0)


class Listener:
    def __init__(self):
        self.threads = set()

    def execute_local_transaction(self, message, argument):
        self.threads.add(threading.current_thread())
        if argument is None:
            raise RuntimeError("the database is away")
        return argument

    async def check_local_transaction(self, message):
        return TransactionState.COMMIT_MESSAGE


async def test_only_committed_transactions_are_seen(served):
    servers, listener = served.nameserver, Listener()
    async with (
        reading(servers) as read,
        TransactionProducer("pg-tx", listener, nameservers=servers, **LONG) as producer,
    ):
        await producer.send(Message("sdk-tx", b"plain"))
        sent = [
            await producer.send_in_transaction(Message("sdk-tx", state.value.encode()), state)
            for state in (TransactionState.ROLLBACK_MESSAGE, TransactionState.COMMIT_MESSAGE)
        ]
        assert [one.state for one in sent] == [
            TransactionState.ROLLBACK_MESSAGE,
            TransactionState.COMMIT_MESSAGE,
        ]
        failed = await producer.send_in_transaction(Message("sdk-tx", b"asked"))
        assert failed.state is TransactionState.UNKNOW
        assert isinstance(failed.error, RuntimeError)
        # the broker asks about the failed one, and commits it
        assert {m.body for m in await read("sdk-tx", 3)} == {b"plain", b"COMMIT_MESSAGE", b"asked"}
        assert threading.main_thread() not in listener.threads


async def test_messages_leave_a_trace(served):
    servers = served.nameserver
    async with reading(servers) as read:
        async with Producer(
            "pg-trace", nameservers=servers, trace=True, trace_topic="sdk-trace", **LONG
        ) as producer:
            result = await producer.send(Message("sdk-traced", b"four", keys="k-1"))
        (trace,) = await read("sdk-trace", 1)
        fields = trace.body.decode().rstrip("\x02").split("\x01")
        assert fields[0] == "Pub"
        assert fields[3:6] == ["pg-trace", "sdk-traced", result.message_id]
        assert fields[-2:] == [result.offset_message_id, "true"]
        assert set(trace.keys) == {result.message_id, "k-1"}


def test_threads_send_without_asyncio(served):
    with blocking.Producer("pg-blocking", nameservers=served.nameserver, **LONG) as producer:
        results = []

        def work():
            results.extend(producer.send(Message("sdk-blocking", b"x")) for _ in range(5))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({result.message_id for result in results}) == 20
        soon = producer.send_soon(Message("sdk-blocking", b"y"))
        assert soon.result(60).queue in producer.queues("sdk-blocking")
        assert len(producer.send_batch([Message("sdk-blocking", b"z")] * 1)) == 1
