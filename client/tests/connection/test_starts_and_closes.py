"""Clients that are started twice concurrently, or closed during their start: one start counts, and nothing is left behind."""

import asyncio

import pytest
from scripted_cluster import cluster
from scripted_group import GroupBroker, consumer_at

from gantrymq import (
    ConfigurationError,
    ConnectionFailed,
    GantryError,
    LitePullConsumer,
    Producer,
    PullConsumer,
)
from gantrymq.connection.instance import ClientInstance, _instances

pytestmark = pytest.mark.anyio
KINDS = ["producer", "pull", "lite", "push"]


@pytest.fixture
def slow_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a client start as slowly as where DNS has to say where the nameserver is."""

    async def own_ip(_: ClientInstance) -> str:
        await asyncio.sleep(0.05)
        return "127.0.0.1"

    monkeypatch.setattr(ClientInstance, "_own_ip", own_ip)


def client_of(kind: str, address: str):
    lite, push = LitePullConsumer("g", nameservers=address), consumer_at(address)
    lite.subscribe("T")
    push.on_messages(lambda messages: None, quick=True)
    others = {"producer": Producer("g", nameservers=address), "pull": PullConsumer("g", nameservers=address)}
    return {**others, "lite": lite, "push": push}[kind]


@pytest.mark.usefixtures("slow_names")
@pytest.mark.parametrize("kind", KINDS)
async def test_of_two_concurrent_starts_one_counts(kind: str) -> None:
    async with cluster(GroupBroker()) as (_, address):
        client = client_of(kind, address)
        first, second = await asyncio.gather(client.start(), client.start(), return_exceptions=True)
        assert first is None
        if kind in {"producer", "pull"}:  # may be started again at any time
            assert second is None
        else:
            assert isinstance(second, ConfigurationError)
        await client.close()
        assert not _instances.current()


@pytest.mark.parametrize("kind", ["producer", "pull"])
async def test_a_close_cancels_no_waiter_for_a_route(kind: str) -> None:
    async with cluster(GroupBroker()) as (nameserver, address):
        nameserver.is_silent = True
        client = client_of(kind, address)
        await client.start()
        asking = asyncio.ensure_future(client.queues("T"))
        await asyncio.sleep(0.05)
        await client.close()
        with pytest.raises(ConnectionFailed):
            await asking


@pytest.mark.usefixtures("slow_names")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("after", [0.0, 0.02, 0.055])
async def test_a_client_closed_during_its_start_does_not_run(kind: str, after: float) -> None:
    broker = GroupBroker()
    async with cluster(broker) as (_, address):
        client = client_of(kind, address)
        starting = asyncio.ensure_future(client.start())
        await asyncio.sleep(after)
        had_started = starting.done()
        await client.close()
        (outcome,) = await asyncio.gather(starting, return_exceptions=True)
        assert outcome is None if had_started else isinstance(outcome, GantryError)
        assert not _instances.current()
        assert broker.members == []
