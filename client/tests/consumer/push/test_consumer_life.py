"""A push consumer from start to end, between a nameserver and a broker in this process: its requests, their order and timing."""

import asyncio

import pytest
from scripted_cluster import cluster, eventually
from scripted_group import MESSAGES, GroupBroker, consumer_at

from gantry_link.connections.connection import connect
from gantry_wire.bodies.clients import HeartbeatData
from gantry_wire.bodies.json_body import decode_body
from gantry_wire.codes import RequestCode
from gantry_wire.frames.command import decode_command
from gantry_wire.frames.encode import encode_request
from gantrymq import (
    ConfigurationError,
    ConsumerState,
    LitePullConsumer,
    NotRunning,
    Producer,
    ReceivedMessage,
)
from gantrymq.connection.heartbeats import Heartbeats
from gantrymq.connection.instance import _instances

pytestmark = pytest.mark.anyio


class SlowToTakeBack(GroupBroker):
    """Answers requests to take a message back (36) when the test says so, and those after that at once."""

    def __init__(self):
        super().__init__()
        self.on_back = lambda: None
        self.frames, self.is_slow = [], True

    def __call__(self, peer, frame):
        command = decode_command(frame)
        if not command.is_response and command.code == RequestCode.CONSUMER_SEND_MSG_BACK and self.is_slow:
            self.frames.append((peer, frame))
            self.on_back()
        else:
            super().__call__(peer, frame)

    def take_back(self):
        self.is_slow = False
        for peer, frame in self.frames:
            super().__call__(peer, frame)


@pytest.mark.parametrize("orderly", [False, True])
async def test_a_consumer_joins_consumes_and_hands_everything_over(orderly: bool) -> None:
    broker, seen = GroupBroker(), []

    async def listener(messages: list[ReceivedMessage]) -> None:
        seen.extend((message.queue_id, message.queue_offset) for message in messages)

    async with cluster(broker) as (_, address):
        consumer = consumer_at(address, orderly=orderly)
        consumer.on_messages(listener)
        async with consumer:
            assert consumer.state is ConsumerState.RUNNING
            await eventually(lambda: len(seen) == 2 * MESSAGES)
            assert broker.members == [consumer.client_id]
            assert bool(broker.locked) == orderly
        assert sorted(seen) == [(queue, n) for queue in range(2) for n in range(MESSAGES)]
        assert broker.offsets["T", 0] == broker.offsets["T", 1] == MESSAGES
        assert broker.locked == set()
        ends = [code for code in broker.received if code in (15, 42, 35)]
        assert ends[-1] == 35, "it leaves when its offsets are kept and its locks given back"
        assert broker.members == []


async def test_queues_are_handed_over_when_the_broker_reports_a_changed_group() -> None:
    broker = GroupBroker()
    async with cluster(broker) as (_, address):
        consumer = consumer_at(address)
        consumer.on_messages(lambda messages: None, quick=True)
        async with consumer:
            await eventually(lambda: len([queue for queue in consumer.queues if queue.topic == "T"]) == 2)
            broker.strangers.append("255.255.255.255@other")
            for peer in set(broker.peers):
                peer.send(encode_request(40, 1, {"consumerGroup": "g"}, b"", oneway=True))
            await eventually(
                lambda: [queue.queue_id for queue in consumer.queues if queue.topic == "T"] == [0]
            )


async def test_a_close_waits_for_the_running_call_and_sends_failed_messages_back() -> None:
    broker, begun, gate = GroupBroker(), asyncio.Event(), asyncio.Event()

    async def listener(messages: list[ReceivedMessage]) -> None:
        begun.set()
        await gate.wait()
        if messages[0].queue_offset == 2:
            raise RuntimeError("no")

    async with cluster(broker) as (_, address):
        consumer = consumer_at(address)
        consumer.on_messages(listener)
        await consumer.start()
        await begun.wait()
        closing = asyncio.ensure_future(consumer.close())
        await asyncio.sleep(0.05)
        assert not closing.done()
        gate.set()
        async with asyncio.timeout(30):
            await closing
        assert broker.back == [2000, 2000], "the third message of either queue"
        assert broker.offsets["T", 0] == MESSAGES
        assert consumer.state is ConsumerState.SHUTDOWN_ALREADY


async def test_a_close_waits_until_an_orderly_message_is_a_dead_letter() -> None:
    """Otherwise the next member would get it too: its offset would not be written."""
    broker, asked = SlowToTakeBack(), asyncio.Event()
    broker.on_back = asked.set

    async def listener(messages: list[ReceivedMessage]) -> None:
        raise RuntimeError("no")

    async with cluster(broker) as (_, address):
        consumer = consumer_at(address, orderly=True, attempts_max=0)
        consumer.on_messages(listener)
        await consumer.start()
        await asked.wait()
        closing = asyncio.ensure_future(consumer.close())
        await asyncio.sleep(0.05)
        broker.take_back()
        async with asyncio.timeout(30):
            await closing
        assert broker.back
        assert sum(broker.offsets.values()) == len(broker.back)


@pytest.mark.parametrize("way", ["coroutine", "thread", "orderly"])
async def test_a_listener_may_close_its_consumer(way: str) -> None:
    broker, calls = GroupBroker(), []

    async with cluster(broker) as (_, address):
        consumer = consumer_at(address, orderly=way == "orderly", concurrency=1, close_timeout=600)
        loop = asyncio.get_running_loop()

        async def coroutine(messages: list[ReceivedMessage]) -> None:
            calls.append(messages[0].queue_offset)
            await consumer.close()
            await asyncio.sleep(0.01)  # and continues

        def plain(messages: list[ReceivedMessage]) -> None:
            calls.append(messages[0].queue_offset)
            asyncio.run_coroutine_threadsafe(consumer.close(), loop).result(60)

        consumer.on_messages(plain if way == "thread" else coroutine)
        async with asyncio.timeout(60), consumer:
            await consumer.run_until_stopped()
        done = sum(offset for (topic, _), offset in broker.offsets.items() if topic == "T")
        assert done == len(calls) > 0, (
            "the call that closed it counts, and any that began before it was heard"
        )
        assert broker.members == []
        assert not _instances.current()


async def test_a_close_that_is_cancelled_waits_for_no_call_and_leaves_nothing_behind() -> None:
    broker, begun = GroupBroker(), asyncio.Event()

    async def listener(messages: list[ReceivedMessage]) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with cluster(broker) as (_, address):
        consumer = consumer_at(address, close_timeout=600)
        consumer.on_messages(listener)
        await consumer.start()
        await begun.wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(consumer.close(), 0.05)
        assert broker.members == []
        assert not _instances.current()
        await eventually(lambda: not [task for task in asyncio.all_tasks() if "gantry" in task.get_name()])


async def test_of_two_concurrent_closes_one_may_time_out_and_both_see_it_closed() -> None:
    broker, begun = GroupBroker(), asyncio.Event()

    async def listener(messages: list[ReceivedMessage]) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with cluster(broker) as (_, address):
        consumer = consumer_at(address, close_timeout=600)
        consumer.on_messages(listener)
        await consumer.start()
        await begun.wait()
        patient = asyncio.ensure_future(consumer.close())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(consumer.close(), 0.05)
        await asyncio.wait([patient])
        assert not patient.cancelled(), "nobody has cancelled that one"
        await consumer.close()
        assert not _instances.current()


@pytest.mark.parametrize("kind", ["push", "lite", "producer"])
async def test_a_cancelled_unregister_leaves_nothing_behind(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unheard(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(Heartbeats, "unregister", unheard)
    async with cluster(GroupBroker()) as (_, address):
        push, lite = consumer_at(address), LitePullConsumer("g", nameservers=address)
        push.on_messages(lambda messages: None, quick=True)
        lite.subscribe("T")
        member = {"push": push, "lite": lite, "producer": Producer("g", nameservers=address)}[kind]
        await member.start()
        stopped = asyncio.ensure_future(push.run_until_stopped())
        await asyncio.sleep(0.01)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(member.close(), 0.3)
        assert not _instances.current()
        async with asyncio.timeout(60):
            await stopped


async def test_a_member_that_leaves_during_a_connect_is_not_in_the_heartbeat(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker, gate, reported = GroupBroker(), asyncio.Event(), []
    answer = broker.answer

    def answer_and_note(command):
        if command.code == RequestCode.HEART_BEAT:
            groups = decode_body(command.body, HeartbeatData).consumer_data_set
            reported.append([group.group_name for group in groups])
        return answer(command)

    async def connect_slowly(*arguments, **options):
        await gate.wait()
        return await connect(*arguments, **options)

    async with cluster(broker) as (_, address), Producer("p", nameservers=address):
        consumer = consumer_at(address)
        consumer.on_messages(lambda messages: None, quick=True)
        await consumer.start()
        instance = consumer._instance
        broker.answer = answer_and_note
        monkeypatch.setattr("gantry_link.connections.pool.connect", connect_slowly)
        for peer in set(broker.peers):
            peer.close()  # as a broker that is started again
        await eventually(lambda: broker.address not in instance.pool.addresses())
        beating = asyncio.ensure_future(instance._heartbeats.beat())
        await asyncio.sleep(0.01)
        await instance.unregister("g", consumer)
        gate.set()
        await beating
        assert reported
        assert reported[-1] == [], "brokers would give it queues for two minutes"
        await consumer.close()


async def test_a_poll_ends_when_its_consumer_is_closed() -> None:
    async with cluster(GroupBroker()) as (_, address):
        consumer = LitePullConsumer("g", nameservers=address)
        consumer.subscribe("other")
        await consumer.start()
        polling = asyncio.ensure_future(consumer.poll(600))
        await asyncio.sleep(0)
        await consumer.close()
        assert await asyncio.wait_for(polling, 60) == []
        with pytest.raises(NotRunning):
            await consumer.poll(600)


async def test_a_start_that_fails_leaves_nothing_behind() -> None:
    broker = GroupBroker()
    async with cluster(broker) as (_, address):
        first, second = consumer_at(address), consumer_at(address)
        for consumer in (first, second):
            consumer.on_messages(lambda messages: None, quick=True)
        async with first:
            with pytest.raises(ConfigurationError, match=r"already has a .* in this process"):
                await second.start()
            assert second.state is ConsumerState.START_FAILED
            assert broker.members == [first.client_id], "the first one is still there"
            await second.close()
        third = consumer_at(address)
        third.on_messages(lambda messages: None, quick=True)
        async with third:
            assert third.state is ConsumerState.RUNNING


async def test_a_consumer_starts_without_a_nameserver_and_joins_later() -> None:
    broker, seen = GroupBroker(), []
    async with cluster(broker, topics=()) as (nameserver, address):
        consumer = consumer_at(address)
        consumer.on_messages(seen.extend, quick=True)
        async with consumer:
            await eventually(lambda: nameserver.asked.count("T") >= 2)
            nameserver.topics["T"] = (broker,)
            await eventually(lambda: len(seen) == 2 * MESSAGES)
