"""Links between replicas over real connections: in order, all or nothing, with introductions; and a group over all of it."""

import asyncio
import os
from contextlib import suppress

import pytest
from replica_disk import RUNS, record, send

from broker_store.log.checkpoint.checkpoint import LastRun
from broker_store.log.checkpoint.checkpoint_file import NO_TIMES
from broker_store.log.files.real_files import RealFiles
from broker_store.log.recovery.recovery import Recovery
from broker_store.log.settings import LogSettings
from broker_store.replication.frames import (
    PART_BYTES_MAX,
    SHIPMENT_BYTES_MAX,
    decode_body,
    encode_message,
    encode_shipment,
)
from broker_store.replication.kept_file import KeptFile
from broker_store.replication.links import LIMITS, RETRY_SECONDS, Links
from broker_store.replication.messages import Beat, Session
from broker_store.replication.register.memory_register import Faults, MemoryRegister, Records
from broker_store.replication.replica import RoleSettings
from broker_store.replication.replica_log import ReplicaLog, ReplicaPart
from broker_store.replication.shell import Shell, ShellCalls
from broker_store.replication.shipping import ShippingSettings
from gantry_chassis.machine.environment import machine
from gantry_guard.cluster_keys import ClusterKeys
from gantry_guard.introduction import INNER, Introducer, Introductions
from gantry_link.connections.pool import ConnectionPool
from gantry_link.connections.turn import Turn
from gantry_link.limits import LinkLimits
from gantry_link.serving.server import RemotingServer
from gantry_wire.codes import GantryCode
from gantry_wire.frames.command import decode_command

pytestmark = pytest.mark.anyio
KEYS, OTHER_KEYS = ClusterKeys({"k1": bytes(range(32))}), ClusterKeys({"k1": bytes(32)})
HEAD = Beat(Session("b-1", 4), 2, 3, 100, 5_000, 0)


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def until(condition, seconds=20):
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


class Receiver:
    """A port of a store that passes requests of replicas on, from services that introduced themselves."""

    def __init__(self, receive):
        self._receive = receive
        self._introductions = Introductions(KEYS.inner, os.urandom)
        self.server = RemotingServer(self.handle, on_failure=lambda *_: None, limits=LIMITS)

    def handle(self, peer, raw):
        command = decode_command(raw)
        if command.code == GantryCode.INTRODUCE:
            self._introductions.introduce(peer, command)
        elif command.code == GantryCode.PROVE:
            self._introductions.prove(peer, command)
        elif INNER in peer.attributes:
            self._receive(command.code, command.body)

    async def listen(self, port=0):
        port = await self.server.listen("127.0.0.1", port)
        return f"127.0.0.1:{port}"


def pool_of(keys, own_limits=None):
    def make(on_lost, limits):
        limits = own_limits or limits
        return ConnectionPool(
            on_lost=on_lost, limits=limits, introduce=Introducer(keys.inner, "broker-store", os.urandom)
        )

    return make


def send_beats(links, count, peer="b"):
    code, body = encode_message("a", HEAD)
    return [links.send(peer, code, (body,)) for _ in range(count)]


async def test_everything_arrives_in_order_once_connected():
    got = []
    receiver = Receiver(lambda code, body: got.append(decode_body(code, body)[1]))
    links = Links({"b": await receiver.listen()}, pool_of(KEYS))
    assert send_beats(links, 1) == [False]
    links.start(lambda _: None)
    assert send_beats(links, 2) == [False, False]
    await until(lambda: send_beats(links, 1) == [True])
    data = os.urandom(3 * PART_BYTES_MAX + 17)
    assert links.send("b", GantryCode.REPLICA_SHIPMENT, tuple(encode_shipment("a", HEAD, 0, len(data), data)))
    assert send_beats(links, 1) == [True]
    await until(lambda: len(got) == 6)
    assert [got[0], got[-1]] == [HEAD, HEAD]
    assert b"".join(part.data for part in got[1:-1]) == data
    assert links.send("stranger", 9063, (b"",)) is False
    await links.close()
    assert send_beats(links, 1) == [False]
    await receiver.server.close()


async def test_a_lost_connection_is_reported_and_made_again():
    got, lost = [], []
    receiver = Receiver(lambda code, _body: got.append(code))
    address = await receiver.listen()
    links = Links({"b": address, "c": "127.0.0.1:1"}, pool_of(KEYS))
    links.start(lost.append)
    await until(lambda: send_beats(links, 1) == [True])
    await until(lambda: got)
    await receiver.server.close()
    await until(lambda: lost == ["b"])
    again = Receiver(lambda code, _body: got.append(code))
    await again.listen(int(address.rpartition(":")[2]))
    got.clear()
    assert send_beats(links, 1, "c") == [False]
    await until(lambda: send_beats(links, 1) == [True])
    await until(lambda: got)
    await links.close()
    await again.server.close()


async def test_a_connection_is_renewed_on_request_and_a_stranger_has_none():
    """A leader of before may be none of the settings, after replicas were removed."""
    lost: list[str] = []
    receiver = Receiver(lambda *_: None)
    links = Links({"b": await receiver.listen()}, pool_of(KEYS))
    links.start(lost.append)
    await until(lambda: send_beats(links, 1) == [True])
    links.renew("stranger")
    links.renew("b")
    await until(lambda: lost == ["b"])
    await until(lambda: send_beats(links, 1) == [True])
    await links.close()
    await receiver.server.close()


async def test_an_address_that_closes_every_connection_gets_pauses():
    accepted = []

    async def close(_reader, writer):
        accepted.append(1)
        writer.close()

    server = await asyncio.start_server(close, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    links = Links(
        {"b": f"{host}:{port}"}, lambda on_lost, limits: ConnectionPool(on_lost=on_lost, limits=limits)
    )
    links.start(lambda _: None)
    await until(lambda: len(accepted) >= 2)
    await asyncio.sleep(1)
    assert len(accepted) <= 2 + 1 / RETRY_SECONDS
    await links.close()
    server.close()


async def test_nobody_without_the_keys_of_the_cluster_is_heard():
    got = []
    receiver = Receiver(lambda code, _body: got.append(code))
    links = Links({"b": await receiver.listen()}, pool_of(OTHER_KEYS))
    links.start(lambda _: None)
    for _ in range(20):
        assert send_beats(links, 1) == [False]
        await asyncio.sleep(0.01)
    assert got == []
    await links.close()
    await receiver.server.close()


async def test_a_full_connection_takes_all_parts_or_none():
    receiver = Receiver(lambda *_: None)
    small = LinkLimits(output_bytes_max=10 * PART_BYTES_MAX)
    links = Links({"b": await receiver.listen()}, pool_of(KEYS, small))
    links.start(lambda _: None)
    await until(lambda: send_beats(links, 1) == [True])
    bodies = tuple(encode_shipment("a", HEAD, 0, 1 << 40, bytes(6 * PART_BYTES_MAX)))
    taken = [links.send("b", GantryCode.REPLICA_SHIPMENT, bodies) for _ in range(3)]
    assert taken == [True, False, False]
    assert LIMITS.output_bytes_max > SHIPMENT_BYTES_MAX
    await links.close()
    await receiver.server.close()


SIZES = LogSettings(segment_bytes=64 * 1024, prezero_bytes=0)


class Replica:
    """A replica on the disk of this machine, with real threads and connections."""

    def __init__(self, directory, name, records, addresses):
        self.directory, self.name, self.noted = str(directory), name, 0
        self.records, self.addresses = records, addresses
        self.acked, self.is_leader, self.errors = 0, False, []
        self.shell = None

    async def start(self):
        self.is_leader = False
        self.receiver = Receiver(self.receive)
        port = int(self.addresses[self.name].rpartition(":")[2])
        files = RealFiles()
        files.make_dirs(f"{self.directory}/commitlog")
        kept = KeptFile(files, self.directory)
        self.log = ReplicaLog(
            files, f"{self.directory}/commitlog", SIZES, lambda position: [record(position, b"state", b"SYS")],
            lambda *_: None, self, ReplicaPart(RUNS, 1 << 20, kept.kept.begin),
        )  # fmt: skip
        last = LastRun(False, "", self.noted, None, None, NO_TIMES)
        for _ in Recovery(self.log, last, rebuild=True, confirms_end=False).run():
            pass
        known = kept.kept.newest.version if kept.kept.newest else 0
        others = {name: address for name, address in self.addresses.items() if name != self.name}
        self.links = Links(others, pool_of(KEYS))
        loop = asyncio.get_running_loop()
        calls = ShellCalls(
            machine(),
            self.links.send,
            self.links.renew,
            Turn.current().at_end,
            loop.call_later,
            loop.call_soon_threadsafe,
            self,
            True,
        )
        self.shell = Shell(
            RoleSettings(self.name, "g", 1, 1000, 1800, 120, 400, self.name == "a"), list(others), self.log, kept,
            MemoryRegister(self.records, Faults(), known), calls, shipping=ShippingSettings(), register_seconds=2,
        )  # fmt: skip
        await self.receiver.listen(port)
        self.links.start(self.shell.lost)
        self.shell.start()

    def receive(self, code, body):
        self.shell.receive(code, body)

    async def stop(self):
        await self.shell.close()
        await self.links.close()
        await self.receiver.server.close()

    def write_confirm(self, position):
        self.noted = position

    def note_deleted(self, position): ...

    def acknowledged(self, up_to):
        self.acked = up_to

    def shown(self, up_to): ...

    def leader_begins_at(self, position): ...
    def synced_here(self, up_to): ...

    def leads(self, record, start):
        self.is_leader = True

    def follows(self, record, *, counted): ...

    def ended(self, reason):
        self.errors.append(reason)

    def failed(self, error):
        self.errors.append(error)

    def stuck(self, peer, error):
        self.errors.append(error)

    def content(self):
        return b"".join(segment.file.pread(SIZES.segment_bytes, 0) for segment in self.log.segments)

    @property
    def has_all_in_the_set(self):
        leading = self.shell.role.leading
        return leading is not None and leading.gate.recorded == set(self.addresses)

    async def write(self, count):
        for number in range(count):
            send(self.log, *[b"%d" % number * 200] * 8)
            self.shell.appended()
            await asyncio.sleep(0)
        await until(lambda: self.acked == self.log.written_end)


async def free_address():
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    return f"127.0.0.1:{port}"


async def test_a_pair_on_real_disks_and_connections_survives_its_leader(tmp_path):
    addresses = {name: await free_address() for name in "ab"}
    records = Records("g")
    one, other = (Replica(tmp_path / name, name, records, addresses) for name in "ab")
    try:
        await one.start()
        await other.start()
        await until(lambda: one.has_all_in_the_set)
        await one.write(100)
        acked = one.log.written_end
        await one.stop()
        await until(lambda: other.is_leader)
        assert other.log.written_end >= acked
        assert other.content()[:acked] == one.content()[:acked]
        await other.write(50)
        await one.start()
        await until(lambda: other.has_all_in_the_set)
        await other.write(50)
        await until(lambda: one.log.durable_end == other.log.written_end)
        assert one.content() == other.content()
        assert len(one.log.segments) > 10
        assert (one.errors, other.errors) == ([], [])
    finally:
        for replica in (one, other):
            with suppress(Exception):
                await replica.stop()
