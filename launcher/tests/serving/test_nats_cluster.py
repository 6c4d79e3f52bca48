"""The NATS servers of a system with replicas, as the launcher starts them: real processes, one cluster, a stream on all three."""

import asyncio
import contextlib
import os
import signal
import socket
import stat
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gantry_launcher.layout import DataDir
from gantry_launcher.options import UpOptions
from gantry_launcher.output.service_log import Output
from gantry_launcher.planning.health import ask
from gantry_launcher.planning.nats_nodes import NatsNode
from gantry_launcher.planning.plan import make_plan
from gantry_launcher.planning.ports import Ports
from gantry_launcher.planning.replicas import Replication
from gantry_launcher.processes.child import Child
from gantry_launcher.serving.side_secrets import make_side_secrets

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]
SECONDS_MAX = 90.0


class Servers:
    """The NATS processes of a plan, each with the machinery that `up` starts it with."""

    def __init__(self, folder: Path) -> None:
        self.data = DataDir(folder)
        self._ports = Ports(("127.0.0.1",))
        plan = make_plan(UpOptions(folder, free_ports=True), self._ports, None, Replication(3))
        make_side_secrets(self.data, plan.nats)
        self.nodes: tuple[NatsNode, ...] = plan.nats
        self.output = Output(self.data.log, echo=False)
        self._lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR)
        self.children = {
            one.name: Child(one, self.output, self._lock) for one in plan.processes if one.role == "nats"
        }

    @property
    def token(self) -> str:
        return self.data.nats_token.read_text()

    def start(self, *names: str) -> None:
        for name in names or self.children:
            self.children[name].start(time.monotonic())
        until = time.monotonic() + SECONDS_MAX
        for name in names or self.children:
            while not ask(self.children[name].plan.check, 1).ready:
                assert time.monotonic() < until, self.said()
                time.sleep(0.02)

    def kill(self, name: str) -> None:
        child = self.children[name]
        child.send(signal.SIGKILL)
        while child.died(time.monotonic()) is None:
            time.sleep(0.01)

    def said(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.data.log.parent.glob("nats*.log")))

    def end(self) -> None:
        for name, child in self.children.items():
            if child.pid is not None:
                self.kill(name)
            child.close()
        self.output.close()
        self._ports.close()
        os.close(self._lock)


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    made = Servers(tmp_path)
    yield made
    made.end()


@contextlib.asynccontextmanager
async def connected(servers: Servers, node: NatsNode) -> AsyncIterator[Any]:
    """A client of one server, that goes to no other."""
    import nats

    client = await nats.connect(node.url, token=servers.token, allow_reconnect=False)
    try:
        yield client
    finally:
        await client.close()


async def until_done(do: Any) -> Any:
    """Return what `do()` returns: a cluster without a leader answers later."""
    async with asyncio.timeout(SECONDS_MAX):
        while True:
            try:
                return await do()
            except Exception:  # noqa: BLE001 - the driver raises many kinds
                await asyncio.sleep(0.1)


async def make_stream(servers: Servers, node: NatsNode) -> list[str]:
    """Make a stream of three copies over one server, write into it, and return who has the copies."""
    name = f"over-{node.name}"
    async with connected(servers, node) as client:
        jetstream = client.jetstream(timeout=2)
        made = await until_done(lambda: jetstream.add_stream(name=name, subjects=[name], num_replicas=3))
        assert (await until_done(lambda: jetstream.publish(name, b"1"))).seq >= 1
        assert made.cluster is not None
        return sorted([made.cluster.leader, *(peer.name for peer in made.cluster.replicas)])


async def last(servers: Servers, node: NatsNode, stream: str) -> bytes:
    async with connected(servers, node) as client:
        jetstream = client.jetstream(timeout=2)
        found = await until_done(lambda: jetstream.get_last_msg(stream, stream))
        return found.data


def test_a_stream_of_three_copies_outlives_any_one_server_and_a_restart(servers: Servers) -> None:
    servers.start()

    async def scenario() -> None:
        for node in servers.nodes:
            assert await make_stream(servers, node) == ["nats-1", "nats-2", "nats-3"]
        first, second, third = servers.nodes
        servers.kill(second.name)
        for node in (first, third):
            async with connected(servers, node) as client:
                for stream in ("over-nats-1", "over-nats-2", "over-nats-3"):
                    await until_done(partial(client.jetstream(timeout=2).publish, stream, node.name.encode()))
        servers.start(second.name)
        assert await last(servers, second, "over-nats-2") == b"nats-3"
        for node in servers.nodes:
            servers.kill(node.name)
        servers.start()
        for node in servers.nodes:
            assert await last(servers, node, "over-nats-1") == b"nats-3"

    asyncio.run(scenario())


def test_its_files_lie_in_the_folder_of_each_server(servers: Servers) -> None:
    servers.start()
    for node in servers.nodes:
        assert (servers.data.of(node.name) / "jetstream").is_dir()


def test_a_server_of_the_cluster_is_believed_by_its_password_only(servers: Servers) -> None:
    """The token of clients does not open the routes: a server may do everything in every account."""
    servers.start()
    password = servers.data.nats_route_password.read_text()

    def answers(user: str, secret: str) -> bytes:
        connect = (
            f'CONNECT {{"user":"{user}","pass":"{secret}","name":"stranger","verbose":false}}\r\nPING\r\n'
        )
        with socket.create_connection(("127.0.0.1", servers.nodes[0].route_port), 30) as route:
            route.sendall(connect.encode())
            received = b""
            with contextlib.suppress(ConnectionResetError):
                while b"-ERR" not in received:
                    if not (part := route.recv(65536)):
                        break
                    received += part
            return received

    for user, secret in (("gantry", "guess"), ("gantry", servers.token), ("", "")):
        assert b"Authorization Violation" in answers(user, secret)
    assert b"cluster name" in answers("gantry", password)  # it gets as far as being asked for its cluster


def test_a_client_needs_the_token_at_every_server(servers: Servers) -> None:
    servers.start()
    for node in servers.nodes:
        with socket.create_connection((node.host, node.port), 30) as client:
            client.sendall(b"CONNECT {}\r\nPING\r\n")
            received = b""
            while part := client.recv(65536):
                received += part
            assert b"Authorization Violation" in received


def test_secrets_are_in_private_files_and_in_no_command(servers: Servers) -> None:
    password = servers.data.nats_route_password.read_text()
    assert len(password) >= 40
    assert password != servers.token
    for path in servers.data.nats_route_password.parent.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(servers.data.nats_route_password.parent.stat().st_mode) == 0o700
    words = [word for child in servers.children.values() for word in child.plan.command]
    assert not [word for word in words if password in word or servers.token in word]


def test_every_write_is_synced(servers: Servers) -> None:
    """The port for monitoring says it; `up` opens none."""
    node = servers.nodes[0]
    port = servers.nodes[1].port
    config = servers.data.nats_node_config(node.name)
    config.write_text(f'{config.read_text()}\nhttp: "127.0.0.1:{port}"\n')
    servers.start(node.name)
    with socket.create_connection(("127.0.0.1", port), 30) as asked:
        asked.sendall(b"GET /varz HTTP/1.0\r\n\r\n")
        answer = b""
        while part := asked.recv(65536):
            answer += part
    assert b'"sync_always": true' in answer


def test_what_a_cluster_says_while_its_servers_start_is_not_shown(servers: Servers) -> None:
    servers.start()

    async def scenario() -> None:
        await make_stream(servers, servers.nodes[0])

    asyncio.run(scenario())
    for child in servers.children.values():
        child.read()
    servers.output.close()
    shown = servers.data.log.read_text() if servers.data.log.exists() else ""
    assert "Error trying to connect to route (attempt 1)" not in shown
    assert "[INF]" not in shown
