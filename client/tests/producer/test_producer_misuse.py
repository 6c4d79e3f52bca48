"""Mistakes of users and their event loops: nothing hangs, nothing is left behind, and the error says what is wrong."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from scripted_cluster import SILENT, Broker, cluster, eventually

from gantry_link.limits import LinkLimits
from gantrymq import (
    ConnectionFailed,
    InvalidMessage,
    Message,
    Producer,
    SendResult,
    TimedOut,
    TransactionProducer,
    by_hash,
)
from gantrymq.connection.instance import ClientInstance, _instances

pytestmark = pytest.mark.anyio


def changed(**parts):
    """A message whose parts are changed after it was made and checked."""
    message = Message("T", b"x")
    for name, value in parts.items():
        setattr(message, name, value)
    return message


@pytest.mark.parametrize("linger", [None, 0.0])
@pytest.mark.parametrize(
    ("message", "field"),
    [
        (Message("T", b"x", tag="\ud800"), "properties"),
        (changed(body="text"), "body"),
        (changed(body=bytearray(b"x")), "body"),
        (changed(topic=5), "topic"),
    ],
)
async def test_a_message_made_invalid_is_refused_and_not_counted_as_outstanding(linger, message, field):
    async with cluster(Broker("a")) as (_, address):
        producer = Producer("g", nameservers=address, linger=linger, send_timeout=600)
        await producer.start()
        await producer.send(Message("T", b"the route is known now"))
        with pytest.raises(InvalidMessage) as refused:
            await producer.send(message)
        assert refused.value.field == field
        async with asyncio.timeout(60):  # it would wait for what counts as on its way
            await producer.close()


async def test_an_unwritable_message_fails_alone_in_a_batch():
    async with (
        cluster(Broker("a")) as (_, address),
        asyncio.timeout(60),
        Producer("g", nameservers=address, linger=0.0, send_timeout=600) as producer,
    ):
        await producer.send(Message("T", b"the route is known now"))
        outcomes = await asyncio.gather(
            producer.send(changed(flag=object())),
            producer.send(Message("T", b"beside it")),
            return_exceptions=True,
        )
        assert isinstance(outcomes[0], InvalidMessage)
        assert isinstance(outcomes[1], SendResult)


async def test_every_way_to_send_refuses_invalid_messages():
    class Listener:
        def execute_local_transaction(self, message, argument): ...
        def check_local_transaction(self, message): ...

    async with (
        cluster(Broker("a")) as (_, address),
        TransactionProducer("g", Listener(), nameservers=address) as producer,
    ):
        ways = (
            producer.send, producer.send_oneway, producer.request, producer.send_in_transaction,
            lambda what: producer.send_batch([what]),
        )  # fmt: skip
        for way in ways:
            with pytest.raises(InvalidMessage, match=r"message: must be a gantrymq.Message, not bytes"):
                await way(b"x")
        for what in ((Message("T", b"x") for _ in range(2)), None, Message("T", b"x")):
            with pytest.raises(InvalidMessage, match=r"messages: must be a list of gantrymq.Message, not"):
                await producer.send_batch(what)
        with pytest.raises(InvalidMessage, match=r"body: bytes, not str, in number 1"):
            await producer.send_batch([Message("T", b"x"), changed(body="text")])


async def test_a_close_that_is_cancelled_leaves_nothing_behind():
    async with cluster(Broker("a", SILENT)) as (_, address):
        producer = Producer("g", nameservers=address, send_timeout=600)
        await producer.start()
        sent = producer.send_soon(Message("T", b"x"))
        await eventually(lambda: producer._sender.open_sends)
        closing = asyncio.ensure_future(producer.close())
        await asyncio.sleep(0.05)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        with pytest.raises(ConnectionFailed):
            await asyncio.wait_for(sent, 60)
        assert not _instances.current()
        async with Producer("g", nameservers=address):  # the group is free
            pass


async def test_sends_of_a_closed_producer_end_while_the_client_serves_others(monkeypatch):
    monkeypatch.setattr("gantrymq.producer.producer.CLOSE_SECONDS", 0.0)
    broker = Broker("a", SILENT)
    async with cluster(broker) as (_, address), AsyncExitStack() as stack:
        other, producer = (Producer(group, nameservers=address, send_timeout=0.05) for group in ("o", "g"))
        await stack.enter_async_context(other)
        await producer.start()
        sent = producer.send_soon(Message("T", b"x"), timeout=600)
        kept = other.send_soon(Message("T", b"y"), timeout=600)
        await eventually(lambda: len(broker.sends) == 2)
        await producer.close()
        with pytest.raises(ConnectionFailed, match="the producer was closed") as failed:
            await asyncio.wait_for(sent, 60)
        assert failed.value.sent
        assert not kept.done()
        kept.cancel()


async def test_a_start_that_is_cancelled_leaves_nothing_behind(monkeypatch):
    async def never(_self):
        await asyncio.Event().wait()

    monkeypatch.setattr(ClientInstance, "_own_ip", never)
    producer = Producer("g", nameservers="127.0.0.1:9")
    starting = asyncio.ensure_future(producer.start())
    await eventually(_instances.current)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not _instances.current()


@asynccontextmanager
async def crowded(broker):
    """A producer whose connections take two calls at a time."""
    async with (
        cluster(broker) as (_, address),
        Producer("g", nameservers=address, send_timeout=600) as producer,
    ):
        producer._instance.pool.limits = LinkLimits(calls_max=2)
        yield producer


async def test_sends_beyond_the_capacity_of_a_connection_wait_in_order():
    broker = Broker("a")
    async with crowded(broker) as producer, asyncio.timeout(60):
        await producer.send(Message("T", b"connected now"))
        queue = (await producer.queues("T"))[0]
        sends = [producer.send_soon(Message("T", b"%d" % n), queue=queue) for n in range(20)]
        await asyncio.sleep(0.015)
        sends += [producer.send_soon(Message("T", b"%d" % n), queue=queue) for n in range(20, 40)]
        await asyncio.gather(*sends)
    assert [body for _, body in broker.raw if body.isdigit()] == [b"%d" % n for n in range(40)]


async def test_a_send_without_room_in_time_or_before_the_close_says_so(monkeypatch):
    monkeypatch.setattr("gantrymq.producer.producer.CLOSE_SECONDS", -600.0)
    async with crowded(Broker("a", "stored", SILENT)) as producer, asyncio.timeout(60):
        await producer.send(Message("T", b"connected now"))
        silent = [producer.send_soon(Message("T", b"x")) for _ in range(2)]
        late, early = (producer.send_soon(Message("T", b"x"), timeout=seconds) for seconds in (0.05, 600))
        with pytest.raises(TimedOut, match="did not read earlier messages"):
            await late
        assert not early.done()
        await producer.close()
        with pytest.raises(ConnectionFailed, match=r"before .* had room") as failed:
            await early
        assert not failed.value.sent
        assert [str(each.exception()) for each in silent if "was closed" in str(each.exception())]


async def test_a_request_that_is_refused_before_it_is_sent_waits_for_no_reply():
    async with cluster(Broker("a")) as (_, address), Producer("g", nameservers=address) as producer:
        queue = (await producer.queues("T"))[0]
        with pytest.raises(InvalidMessage, match="not both"):
            await producer.request(Message("T", b"x"), queue=queue, selector=by_hash)
        with pytest.raises(InvalidMessage):
            await producer.request(changed(body="text"))
        assert producer._instance.replies._waiting == {}
