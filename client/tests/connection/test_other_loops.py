"""Clients of another event loop, another process, or with a duplicate client id."""

import asyncio
import os

import pytest
from scripted_cluster import cluster, eventually
from scripted_group import GroupBroker, consumer_at

from gantry_wire.bodies.admin import Connection, ConsumerConnection
from gantry_wire.bodies.json_body import encode_body
from gantry_wire.codes import RequestCode
from gantrymq import ConnectionFailed, LitePullConsumer, Message, NotRunning, Producer, PullConsumer
from gantrymq.blocking.loop import LoopThread, loop_thread
from gantrymq.consumer.subscriptions.subscription import Subscription
from gantrymq.machine import THIS_MACHINE

pytestmark = pytest.mark.anyio


def clients(address: str):
    lite = LitePullConsumer("lite", nameservers=address)
    lite.subscribe("T")
    push = consumer_at(address)
    push.on_messages(lambda messages: None, quick=True)
    return [Producer("p", nameservers=address), PullConsumer("pull", nameservers=address), lite, push]


async def test_a_client_of_another_loop_is_not_closed_from_here() -> None:
    async with cluster(GroupBroker()) as (_, address):
        for client in clients(address):
            await asyncio.to_thread(loop_thread.run, client.start())
            with pytest.raises(ConnectionFailed, match="belongs to another event loop: close it there"):
                await client.close()
            await asyncio.to_thread(loop_thread.run, client.close())


async def test_after_a_fork_a_close_sends_nothing_and_a_send_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = GroupBroker()
    async with cluster(broker) as (_, address):
        inherited = clients(address)
        for client in inherited:
            await asyncio.to_thread(loop_thread.run, client.start())
        said = len(broker.received)
        with pytest.raises(ConnectionFailed, match="before a fork: start one here"):
            await inherited[0].send(Message("T", b"x"))
        monkeypatch.setattr(THIS_MACHINE, "process_id", os.getpid() + 1)
        for client in inherited:
            instance = client._instance
            await client.close()
            await client.close()
            assert RequestCode.UNREGISTER_CLIENT not in broker.received[said:]
            await asyncio.to_thread(loop_thread.run, instance.release())
        with pytest.raises(NotRunning):
            await inherited[0].send(Message("T", b"x"))


def test_a_client_of_a_closed_loop_is_closed_without_it() -> None:
    producer = Producer("p", nameservers="127.0.0.1:9")
    asyncio.run(producer.start())
    asyncio.run(producer.close())


async def test_code_that_raises_system_exit_does_not_break_later_calls() -> None:
    def leave() -> None:
        raise SystemExit(3)

    def left(thread: LoopThread) -> int | str | None:
        with pytest.raises(SystemExit) as left:
            thread.call(leave)
        return left.value.code

    thread = LoopThread()
    assert await asyncio.to_thread(left, thread) == 3
    async with asyncio.timeout(30):
        assert await asyncio.wrap_future(thread.begin(asyncio.sleep(0, "alive"))) == "alive"


async def test_a_member_with_the_same_client_id_logs_an_error(caplog: pytest.LogCaptureFixture) -> None:
    broker = GroupBroker()
    answer = broker.answer

    def with_namesakes(command):
        if command.code != RequestCode.GET_CONSUMER_CONNECTION_LIST:
            return answer(command)
        both = [
            Connection(client_addr=f"127.0.0.1:{n}", client_id=member)
            for n, member in enumerate(broker.members * 2)
        ]
        return 0, {}, encode_body(ConsumerConnection(connection_set=both))

    async with cluster(broker) as (_, address):
        first = consumer_at(address, rebalance_interval=0.1)
        first.on_messages(lambda messages: None, quick=True)
        async with first:
            await asyncio.sleep(0.3)
            assert "TOO" not in caplog.text, "one connection of its own name is its own"
            broker.answer = with_namesakes
            await eventually(lambda: "ANOTHER MEMBER HAS THE SAME CLIENT ID" in caplog.text)
            await asyncio.sleep(0.3)
        assert caplog.text.count("ANOTHER MEMBER") == 1


def test_a_subscription_is_newer_than_the_previous_one_whatever_the_clock_shows() -> None:
    before, after = Subscription("T", "a", version=2_000), Subscription("T", "b", version=1_000)
    assert after.after(before) == Subscription("T", "b", version=2_001)
    assert before.after(after) is before
    assert after.after(None) is after
