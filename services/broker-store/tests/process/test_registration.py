"""Registration with scripted nameservers on real sockets."""

import asyncio
import contextlib

import pytest
from sending_side import NoReaders

from broker_store.commit.topics import TopicPolicy, TopicTable
from broker_store.commit.visible.store_events import StoreEvents, StoreListeners
from broker_store.config.config_files import DataVersionCounter
from broker_store.process.registration import Identity, Registration
from gantry_link.connections.pool import ConnectionPool
from gantry_link.serving.server import RemotingServer
from gantry_wire.bodies.register_broker import decode_register_body
from gantry_wire.codes import RequestCode
from gantry_wire.frames.command import decode_command
from gantry_wire.frames.encode import encode_response
from gantry_wire.headers.nameserver import RegisterBrokerHeader

pytestmark = pytest.mark.anyio


class Nameserver:
    """Records what brokers register."""

    def __init__(self) -> None:
        self.registrations: list[tuple[RegisterBrokerHeader, dict]] = []
        self.left: list[str] = []
        self.server = RemotingServer(self.receive)
        self.port = 0

    async def start(self, port: int = 0) -> "Nameserver":
        self.port = await self.server.listen("127.0.0.1", port)
        return self

    def receive(self, peer, raw) -> None:
        command = decode_command(raw)
        if command.code == RequestCode.REGISTER_BROKER:
            header = command.read(RegisterBrokerHeader)
            body = decode_register_body(command.body, compressed=header.compressed)
            self.registrations.append((header, body.topic_config_serialize_wrapper.topic_config_table))
        elif command.code == RequestCode.UNREGISTER_BROKER:
            self.left.append(command.ext["brokerName"])
        peer.send(encode_response(0, command.opaque))


async def until(condition) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


def _unused(_entry) -> None:
    raise AssertionError("nothing is placed here")


@contextlib.asynccontextmanager
async def running(*nameservers: Nameserver, every_seconds: float = 30.0):
    events = StoreEvents()
    topics = TopicTable(TopicPolicy("c", "b"), DataVersionCounter(lambda: 1), (), events.topic_changed)
    hints: list[str] = []
    pool = ConnectionPool()
    addresses = ";".join(f"127.0.0.1:{nameserver.port}" for nameserver in nameservers)
    identity = Identity("c", "b", "127.0.0.1:10911", "127.0.0.1:10912")
    registration = Registration(
        pool, addresses, identity, topics, broker_permission=6, every_seconds=every_seconds, publish=hints.append
    )  # fmt: skip
    events.connect(
        StoreListeners(_unused, NoReaders(), [registration.topic_changed], [], [], [], lambda: None)
    )
    task = asyncio.ensure_future(registration.run())
    try:
        yield registration, topics, hints
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await pool.close()
        for nameserver in nameservers:
            await nameserver.server.close()


async def test_every_nameserver_gets_all_topics_but_internal_ones():
    one, two = await Nameserver().start(), await Nameserver().start()
    async with running(one, two):
        await until(lambda: one.registrations and two.registrations)
    header, topics = one.registrations[0]
    assert (header.broker_name, header.broker_addr, header.cluster_name) == ("b", "127.0.0.1:10911", "c")
    assert header.ha_server_addr == "127.0.0.1:10912"
    assert "TBW102" in topics
    assert not any(name.startswith("GANTRY_SYS_") for name in topics)


async def test_a_new_topic_is_registered_at_once_and_hinted():
    one = await Nameserver().start()
    async with running(one) as (_, topics, hints):
        await until(lambda: one.registrations)
        topics.ensure("orders", 3)
        await until(lambda: "orders" in one.registrations[-1][1])
        await until(lambda: hints)
    assert hints == ["gantry.route.orders"]
    assert one.registrations[-1][1]["orders"].write_queue_nums == 3


async def test_topics_that_change_together_are_hinted_in_the_order_of_their_names():
    one = await Nameserver().start()
    names = [f"topic{number}" for number in range(9, -1, -1)]
    async with running(one) as (_, topics, hints):
        await until(lambda: one.registrations)
        for name in names:
            topics.ensure(name, 1)
        await until(lambda: len(hints) == len(names))
    assert hints == [f"gantry.route.{name}" for name in sorted(names)]


async def test_a_topics_creation_is_answered_once_nameservers_know_it():
    one = await Nameserver().start()
    async with running(one) as (registration, topics, _):
        await until(lambda: one.registrations)
        known: list[bool] = []
        registration.when_known(lambda: known.append(True))
        await until(lambda: known)  # nothing has changed
        for name in ("orders", "payments"):  # the second one during the first registration
            topics.ensure(name, 3)
            registration.when_known(lambda name=name: known.append(name in one.registrations[-1][1]))
            assert len(known) < 3
            await asyncio.sleep(0)
        await until(lambda: len(known) == 3)
    assert known == [True, True, True]


async def test_two_simultaneous_registrations_run_one_after_the_other():
    one = await Nameserver().start()
    async with running(one) as (registration, topics, _):
        known: list[bool] = []
        for name in ("orders", "payments"):
            topics.ensure(name, 3)
            registration.when_known(lambda name=name: known.append(name in one.registrations[-1][1]))
        assert await asyncio.gather(registration.register(), registration.register()) == [True, True]
        await until(lambda: len(known) == 2)
    assert known == [True, True]


async def test_a_topics_creation_is_answered_soon_without_a_nameserver():
    gone = await Nameserver().start()
    await gone.server.close()
    async with running(gone) as (registration, topics, _):
        topics.ensure("orders", 3)
        known: list[bool] = []
        registration.when_known(lambda: known.append(True))
        await until(lambda: known)


async def test_a_nameserver_that_returns_is_registered_with_soon():
    one = await Nameserver().start()
    async with running(one):
        await until(lambda: one.registrations)
        await one.server.close()
        again = await Nameserver().start(one.port)
        await until(lambda: again.registrations)
        await again.server.close()


async def test_one_dead_nameserver_does_not_affect_the_other():
    dead, alive = await Nameserver().start(), await Nameserver().start()
    await dead.server.close()
    async with running(dead, alive) as (registration, _, _):
        await until(lambda: alive.registrations)
        assert await registration.register() is False
        assert registration.failures >= 1


async def test_the_brokers_permission_masks_its_topics():
    one = await Nameserver().start()
    async with running(one) as (registration, topics, _):
        await until(lambda: one.registrations)
        registration.set_broker_permission(4)
        topics.ensure("orders", 3)
        await until(lambda: "orders" in one.registrations[-1][1])
    assert one.registrations[-1][1]["orders"].perm == 4
    assert topics.find("orders").perm == 6


async def test_a_stopping_broker_unregisters():
    one = await Nameserver().start()
    async with running(one) as (registration, _, _):
        await until(lambda: one.registrations)
        await registration.unregister()
    assert one.left == ["b"]


async def test_it_registers_regularly():
    one = await Nameserver().start()
    async with running(one, every_seconds=0.05):
        await until(lambda: len(one.registrations) >= 3)


async def test_a_broker_that_unregistered_does_not_register_again_while_it_drains():
    """The registration loop runs until the end of a stop: a new topic, or the time, wakes it."""
    one = await Nameserver().start()
    async with running(one, every_seconds=0.2) as (registration, topics, _):
        await until(lambda: one.registrations)
        await registration.unregister()
        before = len(one.registrations)
        topics.ensure("late", 3)
        known: list[bool] = []
        registration.when_known(lambda: known.append(True))
        await until(lambda: known)
        await asyncio.sleep(0.8)
        assert one.left == ["b"]
        assert len(one.registrations) == before
