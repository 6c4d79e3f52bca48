"""Listeners of the simulated network: wildcard and loopback addresses, and ports that processes of one machine share."""

from __future__ import annotations

import asyncio
import socket

import pytest

from gantry_chassis.process import Life
from gantry_simulation.network.network import Network
from gantry_simulation.processes.process import Main, Process
from gantry_simulation.world.not_simulated import NotSimulated
from gantry_simulation.world.world import World

PORT = 1000
SERVER, OTHER = "10.0.0.1", "10.0.0.2"


class Machines:
    """Two machines: one with two processes, one with a client."""

    def __init__(self, world: World) -> None:
        self.world = world
        network = Network(world)
        self.one = Process(world, network, "one", SERVER)
        self.two = Process(world, network, "two", SERVER, beside=self.one)
        self.client = Process(world, network, "client", OTHER)
        self.answers: list[str] = []
        self.errors: list[OSError] = []

    def serves(self, name: str, host: str, *, reuse_port: bool = False) -> Main:
        """Return a main that answers each connection with its name and both of its addresses."""

        async def main(life: Life) -> None:
            async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                local, remote = writer.get_extra_info("sockname"), writer.get_extra_info("peername")
                assert local == writer.get_extra_info("socket").getsockname()
                writer.write(f"{name} {local[0]} {remote[0]} {len(remote)}".encode())
                writer.close()

            try:
                sock = life.environment.listening_socket(host, PORT, backlog=10, reuse_port=reuse_port)
            except OSError as error:
                self.errors.append(error)
                return
            await asyncio.start_server(answer, sock=sock)
            await life.stopping.wait()

        return main

    def asks(self, host: str, times: int = 1) -> Main:
        async def main(life: Life) -> None:
            for _ in range(times):
                try:
                    reader, writer = await asyncio.open_connection(host, PORT)
                    self.answers.append((await reader.read()).decode())
                    writer.close()
                except OSError as error:
                    self.errors.append(error)

        return main

    def ask(self, host: str, *, by: Process | None = None, times: int = 1) -> list[str]:
        """Connect and return the answers."""
        self.answers, process = [], by or self.client
        process.start(self.asks(host, times))
        assert self.world.run_until(lambda: not process.is_running, within=600)
        return self.answers


@pytest.fixture
def machines(world: World) -> Machines:
    return Machines(world)


@pytest.mark.parametrize(
    ("listen", "answers"),
    [
        ("0.0.0.0", [f"one {SERVER} {OTHER} 2", "one 127.0.0.1 127.0.0.1 2"]),
        ("::", [f"one ::ffff:{SERVER} ::ffff:{OTHER} 4", "one ::ffff:127.0.0.1 ::ffff:127.0.0.1 4"]),
        ("127.0.0.1", ["one 127.0.0.1 127.0.0.1 2"]),
        (SERVER, [f"one {SERVER} {OTHER} 2"]),
    ],
)
def test_a_listener_takes_connections_to_its_addresses_alone(
    machines: Machines, listen: str, answers: list[str]
) -> None:
    machines.one.start(machines.serves("one", listen))
    machines.world.run_for(1)
    found = machines.ask(SERVER) + machines.ask("localhost", by=machines.two)
    assert found == answers
    assert [type(error) for error in machines.errors] == [ConnectionRefusedError] * (2 - len(answers))
    assert machines.world.violations == []


def test_the_loopback_address_of_ipv6_reaches_listeners_of_both_kinds_alone(machines: Machines) -> None:
    machines.one.start(machines.serves("one", "::"))
    machines.world.run_for(1)
    assert machines.ask("::1", by=machines.two) == ["one ::1 ::1 4"]
    machines.one.kill()
    machines.one.start(machines.serves("one", "0.0.0.0"))
    machines.world.run_for(1)
    assert machines.ask("::1", by=machines.two) == []


def test_an_exact_address_goes_before_a_wildcard_and_shares_its_port_only_if_both_say_so(
    machines: Machines,
) -> None:
    machines.one.start(machines.serves("one", "0.0.0.0"))
    machines.world.run_for(1)
    machines.two.start(machines.serves("two", SERVER, reuse_port=True))
    machines.world.run_for(1)
    assert [error.strerror for error in machines.errors] == ["Address already in use"]
    machines.one.kill()
    machines.one.start(machines.serves("one", "0.0.0.0", reuse_port=True))
    machines.two.start(machines.serves("two", SERVER, reuse_port=True))
    machines.world.run_for(1)
    assert set(machines.ask(SERVER, times=10)) == {f"two {SERVER} {OTHER} 2"}


def test_a_shared_port_spreads_connections_and_a_killed_process_loses_only_its_own(
    machines: Machines,
) -> None:
    for process in (machines.one, machines.two):
        process.start(machines.serves(process.name, "0.0.0.0", reuse_port=True))
    machines.world.run_for(1)
    names = [answer.split()[0] for answer in machines.ask(SERVER, times=40)]
    assert min(names.count("one"), names.count("two")) > 5
    machines.one.kill()
    assert {answer.split()[0] for answer in machines.ask(SERVER, times=10)} == {"two"}
    machines.one.start(machines.serves("one", "0.0.0.0", reuse_port=True))
    machines.world.run_for(1)
    assert {answer.split()[0] for answer in machines.ask(SERVER, times=40)} == {"one", "two"}
    machines.two.lose_power()
    assert not machines.one.is_running


def test_a_part_of_a_socket_that_is_not_simulated_is_named(machines: Machines) -> None:
    async def main(life: Life) -> None:
        sock = life.environment.listening_socket(SERVER, PORT, backlog=1)
        with pytest.raises(NotSimulated, match="socket has no getsockopt"):
            sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        with pytest.raises(NotSimulated, match="ssl_handshake_timeout"):
            await asyncio.get_running_loop().create_server(
                asyncio.Protocol, sock=sock, ssl_handshake_timeout=1
            )
        with pytest.raises(OSError, match="Cannot assign"):
            life.environment.listening_socket(OTHER, PORT, backlog=1)

    machines.one.start(main)
    machines.world.run_for(1)
    assert machines.world.violations == []
    assert not machines.one.is_running
