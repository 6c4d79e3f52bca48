"""Transports of the simulated network: any chunking gives the same bytes in order, and each end is seen as asyncio shows it."""

from __future__ import annotations

import asyncio
import socket
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gantry_chassis.process import Life
from gantry_simulation.network.conditions import Conditions
from gantry_simulation.network.network import Network
from gantry_simulation.processes.process import Process
from gantry_simulation.world.world import World

PORT = 1000
SERVER = "10.0.0.1"
CLIENT = "10.0.0.2"


class Recording(asyncio.Protocol):
    """Keeps everything that its transport calls."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.pieces = 0
        self.calls: list[str] = []
        self.error: Exception | None = None
        self.keeps_open = False

    def connection_made(self, transport) -> None:
        self.transport = transport
        self.calls.append("made")

    def data_received(self, data: bytes) -> None:
        assert data
        self.received += data
        self.pieces += 1

    def eof_received(self) -> bool:
        self.calls.append("eof")
        return self.keeps_open

    def pause_writing(self) -> None:
        self.calls.append("pause")

    def resume_writing(self) -> None:
        self.calls.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.calls.append("lost")
        self.error = exc


class Pair:
    """A server and a client process with one connection."""

    def __init__(self, world: World, conditions: Conditions | None = None) -> None:
        self.world = world
        self.network = Network(self.world, conditions)
        self.server = Process(self.world, self.network, "server", SERVER)
        self.client = Process(self.world, self.network, "client", CLIENT)
        self.accepted: list[Recording] = []
        self.connected: list[Recording] = []
        self.errors: list[OSError] = []
        self.server.start(self.serve)
        self.world.run_for(0.1)

    def _make(self) -> Recording:
        self.accepted.append(Recording())
        return self.accepted[-1]

    async def serve(self, life: Life) -> None:
        await asyncio.get_running_loop().create_server(self._make, SERVER, PORT)
        await life.stopping.wait()

    async def connects(self, life: Life) -> None:
        try:
            _, protocol = await asyncio.get_running_loop().create_connection(Recording, SERVER, PORT)
        except OSError as error:
            self.errors.append(error)
        else:
            self.connected.append(protocol)
        await life.stopping.wait()

    def connect(self) -> tuple[Recording, Recording]:
        self.client.start(self.connects)
        assert self.world.run_until(lambda: self.connected and self.accepted[0].calls, within=5)
        return self.connected[-1], self.accepted[-1]


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1000),
    writes=st.lists(st.integers(1, 5000), max_size=8),
    cut_chance=st.sampled_from([0.0, 0.5, 1.0]),
    window=st.integers(1_000, 20_000),
)
def test_bytes_arrive_whole_and_in_order_however_they_are_cut(
    seed: int, writes: list[int], cut_chance: float, window: int
) -> None:
    with World(seed) as world:
        check_delivery(Pair(world, Conditions(cut_chance=cut_chance, window_bytes=(window, window))), writes)


def check_delivery(pair: Pair, writes: list[int]) -> None:
    one, other = pair.connect()
    sent = b""
    for number, size in enumerate(writes):
        data = bytes((number * 31 + at) % 251 for at in range(size))
        one.transport.writelines([data[: size // 2], data[size // 2 :]])
        sent += data
    one.transport.close()
    assert pair.world.run_until(lambda: other.calls == ["made", "eof", "lost"], within=60)
    assert other.received == sent
    assert (one.calls[-1], one.error, other.error) == ("lost", None, None)
    assert pair.world.violations == []


def test_pieces_are_cut(world: World) -> None:
    pair = Pair(world, conditions=Conditions(cut_chance=1.0))
    one, other = pair.connect()
    for _ in range(10):
        one.transport.write(b"x" * 100)
    pair.world.run_for(5)
    assert len(other.received) == 1000
    assert other.pieces > 10


def test_a_peer_that_does_not_read_pauses_the_writer_until_it_reads(world: World) -> None:
    pair = Pair(world, conditions=Conditions(window_bytes=(1000, 1000)))
    one, other = pair.connect()
    other.transport.pause_reading()
    one.transport.set_write_buffer_limits(high=500, low=100)
    one.transport.write(b"x" * 1400)
    assert one.calls == ["made"]
    one.transport.write(b"y" * 200)
    assert one.calls == ["made", "pause"]
    pair.world.run_for(10)
    assert other.received == b""
    assert one.transport.get_write_buffer_size() == 600
    other.transport.resume_reading()
    pair.world.run_for(10)
    assert other.received == b"x" * 1400 + b"y" * 200
    assert one.calls == ["made", "pause", "resume"]
    assert one.transport.get_write_buffer_size() == 0


def test_an_end_of_the_stream_leaves_the_other_direction_open(world: World) -> None:
    pair = Pair(world)
    one, other = pair.connect()
    other.keeps_open = True
    one.transport.write(b"question")
    one.transport.write_eof()
    pair.world.run_for(5)
    assert (other.calls, bytes(other.received)) == (["made", "eof"], b"question")
    other.transport.write(b"answer")
    other.transport.close()
    pair.world.run_for(5)
    assert (one.calls, bytes(one.received)) == (["made", "eof", "lost"], b"answer")


@pytest.mark.parametrize("resets", [False, True])
def test_an_abort_drops_what_is_unsent_and_resets_the_peer_if_it_may_not_linger(
    world: World, resets: bool
) -> None:
    pair = Pair(world, conditions=Conditions(window_bytes=(1000, 1000)))
    one, other = pair.connect()
    one.transport.write(b"x" * 5000)
    if resets:
        linger = struct.pack("ii", 1, 0)
        one.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    one.transport.abort()
    pair.world.run_for(5)
    assert len(other.received) <= 1000
    assert (one.calls[-1], one.error) == ("lost", None)
    assert other.calls[-1] == "lost"
    assert isinstance(other.error, ConnectionResetError) == resets


def test_a_killed_process_ends_its_connections(world: World) -> None:
    pair = Pair(world)
    one, other = pair.connect()
    pair.server.kill()
    pair.world.run_for(5)
    assert one.calls[-1] == "lost"
    assert other.calls == ["made"]


def test_a_machine_without_power_says_nothing_until_it_is_back(world: World) -> None:
    pair = Pair(world)
    one, _ = pair.connect()
    pair.server.lose_power()
    one.transport.write(b"x")
    pair.world.run_for(1000)
    assert one.calls == ["made"]
    pair.server.start(pair.serve)
    one.transport.write(b"y")
    pair.world.run_for(5)
    assert isinstance(one.error, ConnectionResetError)


def test_a_half_broken_connection_is_noticed_by_the_other_side_when_it_sends(world: World) -> None:
    pair = Pair(world)
    one, other = pair.connect()
    assert pair.network.break_connections(SERVER, CLIENT, half=True) == 1
    pair.world.run_for(100)
    assert isinstance(other.error, ConnectionResetError)
    assert one.calls == ["made"]
    assert pair.network.unaware(CLIENT, {SERVER}) == 1
    assert pair.network.unaware(SERVER, {CLIENT}) == 0
    one.transport.write(b"x")
    pair.world.run_for(5)
    assert isinstance(one.error, ConnectionResetError)
    assert pair.network.unaware(CLIENT, {SERVER}) == 0


@pytest.mark.parametrize("both", [True, False])
def test_a_partition_holds_what_is_sent_until_it_is_healed(both: bool, world: World) -> None:
    pair = Pair(world)
    one, other = pair.connect()
    pair.network.cut(CLIENT, SERVER, both=both)
    one.transport.write(b"question")
    other.transport.write(b"other way")
    pair.world.run_for(100)
    assert other.received == b""
    assert one.received == (b"" if both else b"other way")
    pair.network.heal(CLIENT, SERVER)
    pair.world.run_for(5)
    assert other.received == b"question"
    assert one.received == b"other way"


def test_a_port_without_a_listener_or_that_refuses_is_refused(world: World) -> None:
    pair = Pair(world)
    pair.network.refuse(pair.server.host, PORT, refused=True)
    pair.client.start(pair.connects)
    pair.world.run_for(5)
    pair.network.refuse(pair.server.host, PORT, refused=False)
    pair.server.kill()
    pair.client.kill()
    pair.client.start(pair.connects)
    pair.world.run_for(5)
    assert [type(error) for error in pair.errors] == [ConnectionRefusedError] * 2


def test_a_connection_to_a_cut_off_host_times_out_and_is_made_when_the_partition_ends(world: World) -> None:
    pair = Pair(world)
    pair.network.cut(CLIENT, SERVER)
    pair.client.start(pair.connects)
    pair.world.run_for(200)
    assert [type(error) for error in pair.errors] == [TimeoutError]
    pair.client.kill()
    pair.client.start(pair.connects)
    pair.world.run_for(5)
    pair.network.heal(CLIENT, SERVER)
    pair.world.run_for(5)
    assert [recording.calls for recording in pair.connected] == [["made"]]


def test_connections_wait_for_a_paused_server(world: World) -> None:
    pair = Pair(world)
    pair.server.pause()
    pair.client.start(pair.connects)
    pair.world.run_for(5)
    assert (len(pair.connected), len(pair.accepted)) == (1, 0)
    pair.connected[0].transport.write(b"early")
    pair.server.resume()
    pair.world.run_for(5)
    assert pair.accepted[0].received == b"early"


def test_a_transport_knows_its_addresses_and_a_descriptor_that_is_used_again(world: World) -> None:
    pair = Pair(world)
    one, other = pair.connect()
    assert (
        one.transport.get_extra_info("peername")
        == (SERVER, PORT)
        == other.transport.get_extra_info("sockname")
    )
    assert one.transport.get_extra_info("sockname") == other.transport.get_extra_info("peername")
    descriptor = other.transport.get_extra_info("socket").fileno()
    one.transport.close()
    pair.world.run_for(5)
    pair.client.kill()
    pair.client.start(pair.connects)
    pair.world.run_for(5)
    assert pair.accepted[1].transport.get_extra_info("socket").fileno() == descriptor


def test_an_error_of_a_protocol_is_a_violation_and_ends_its_connection(world: World) -> None:
    pair = Pair(world)
    one, other = pair.connect()
    other.data_received = lambda data: 1 // 0
    one.transport.write(b"x")
    pair.world.run_for(5)
    assert isinstance(other.error, ZeroDivisionError)
    assert [violation.process for violation in pair.world.violations] == ["server"]
    assert one.calls[-1] == "lost"
