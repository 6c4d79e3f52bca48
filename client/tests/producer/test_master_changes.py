"""Sends while another replica takes over a broker: they continue at the next master, within their time and without using up tries."""

import asyncio

import pytest
from scripted_cluster import CLOSE, NOT_LEADER, SILENT, STORED, Broker, cluster, eventually

from gantrymq import Message, MessageQueue, NoRoute, Producer, TimedOut

pytestmark = pytest.mark.anyio
PATIENT = {"send_timeout": 60.0, "route_poll_interval": 600.0}
"""The usual poll of routes comes too late."""


class Group:
    """Two replicas of the broker `a`. Only the first is in the topic's list of the nameserver: its `addresses` name both."""

    def __init__(self, *outcomes):
        self.old, self.new = Broker("a", *outcomes), Broker("a", STORED)

    def lead(self, *by_id):
        self.old.addresses = {number: one.address for number, one in enumerate(by_id) if one is not None}


async def started(group, stack_of):
    """Let the first replica lead; forget what the set-up put into the topic's list."""
    nameserver, address = stack_of
    nameserver.topics = {"T": [group.old], "U": [group.old]}
    group.lead(group.old, group.new)
    return address


@pytest.mark.parametrize(
    ("outcome", "queue"),
    [(NOT_LEADER, None), (SILENT, None), (CLOSE, None), (NOT_LEADER, MessageQueue("T", "a", 1))],
)
async def test_a_send_continues_at_the_next_master(outcome, queue):
    group = Group(STORED, outcome)
    async with (
        cluster(group.old, group.new) as both,
        Producer("g", nameservers=await started(group, both), retries=5, **PATIENT) as producer,
    ):
        await producer.send(Message("T", b"first"))
        sending = asyncio.ensure_future(producer.send(Message("T", b"second"), queue=queue))
        await eventually(lambda: len(group.old.sends) >= 2)
        group.lead(group.new, group.old)
        result = await sending
        assert len(group.new.sends) == 1
        assert result.queue.broker == "a"
        assert queue is None or result.queue == queue


async def test_refusals_of_a_replica_that_does_not_lead_use_up_no_tries():
    group = Group(NOT_LEADER)
    async with (
        cluster(group.old, group.new) as both,
        Producer("g", nameservers=await started(group, both), retries=0, **PATIENT) as producer,
    ):
        sending = asyncio.ensure_future(producer.send(Message("T", b"m")))
        await eventually(lambda: len(group.old.sends) > 4)
        group.lead(group.new, group.old)
        await sending
    assert len(group.new.sends) == 1


async def test_a_replica_that_says_so_is_waited_for_also_where_no_route_names_another():
    """Nameservers need not know those that follow."""
    group = Group(NOT_LEADER)
    async with (
        cluster(group.old, group.new) as both,
        Producer("g", nameservers=await started(group, both), retries=0, **PATIENT) as producer,
    ):
        group.lead(group.old)
        sending = asyncio.ensure_future(producer.send(Message("T", b"m")))
        await eventually(lambda: len(group.old.sends) > 4)
        group.lead(group.new)
        await sending
    assert len(group.new.sends) == 1


async def test_a_send_waits_while_no_replica_leads():
    group = Group()
    async with cluster(group.old, group.new) as both:
        nameserver, _ = both
        address = await started(group, both)
        group.lead(None, group.old, group.new)
        async with Producer("g", nameservers=address, **PATIENT) as producer:
            sending = asyncio.ensure_future(producer.send(Message("T", b"m")))
            await eventually(lambda: len(nameserver.asked) > 3)
            assert not sending.done()
            group.lead(group.new, group.old)
            await sending
    assert len(group.new.sends) == 1


async def test_the_time_of_a_send_ends_its_wait():
    group = Group()
    async with cluster(group.old, group.new) as both:
        address = await started(group, both)
        group.lead(None, group.old, group.new)
        async with Producer("g", nameservers=address) as producer:
            with pytest.raises((TimedOut, NoRoute)):
                await producer.send(Message("T", b"m"), timeout=0.3)


async def test_a_master_that_moved_moves_for_every_topic():
    group = Group()
    async with (
        cluster(group.old, group.new) as both,
        Producer("g", nameservers=await started(group, both), **PATIENT) as producer,
    ):
        for topic in ("T", "U"):
            await producer.send(Message(topic, b"first"))
        group.lead(group.new, group.old)
        await eventually(lambda: producer._sender._topics == {})  # found by the poll of masters
        for topic in ("T", "U"):
            await producer.send(Message(topic, b"second"))
    assert [len(one.sends) for one in (group.old, group.new)] == [2, 2]


async def test_brokers_without_replicas_cost_no_queries():
    broker = Broker("a")
    async with (
        cluster(broker) as (nameserver, address),
        Producer("g", nameservers=address, **PATIENT) as producer,
    ):
        await producer.send(Message("T", b"m"))
        asked = len(nameserver.asked)
        await asyncio.sleep(0.3)
        assert len(nameserver.asked) == asked
