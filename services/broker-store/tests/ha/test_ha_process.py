"""The HA port of a real process."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from python_slave import PythonSlave
from test_broker_store_process import SOURCES, Client, Store

from gantry_wire.bodies.admin import HARuntimeInfo
from gantry_wire.bodies.json_body import decode_body

pytestmark = [pytest.mark.cluster, pytest.mark.anyio, pytest.mark.timeout(600)]
MIB = 1024 * 1024


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Side:
    """A store with an HA port, which is started again in the same directory."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.ha_port, self.stores = directory, free_port(), []

    def start(self) -> Store:
        self.stores.append(
            Store(
                self.directory,
                "ha_protocol=on",
                f"ha_port={self.ha_port}",
                f"segment_bytes={MIB}",
                "zero_ahead_bytes=0",
            )
        )
        return self.stores[-1]

    def bytes(self, end: int) -> bytes:
        files = sorted(path for path in (self.directory / "commitlog").iterdir() if path.name.isdecimal())
        return b"".join(path.read_bytes() for path in files)[:end]


@pytest.fixture
def side(tmp_path):
    side = Side(tmp_path / "store")
    yield side
    for store in side.stores:
        if store.process.poll() is None:
            store.kill()
        store.drain.join()
        store.process.stderr.close()
    for client in Client.opened:
        client.socket.close()
    Client.opened.clear()


def status(client: Client) -> HARuntimeInfo:
    return decode_body(client.ask(907).body, HARuntimeInfo)


def fill(client: Client, count: int) -> int:
    """Send messages and return where the log ends."""
    for number in range(count):
        assert client.send(os.urandom(10_000), queue_id=number % 4).code == 0
    return status(client).master_commit_log_max_offset


async def test_a_copy_has_the_bytes_of_the_files_over_kills_and_stops_of_the_store(side):
    slave = PythonSlave(side.ha_port)
    for end_of_life in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
        store = side.start()
        client = Client(store.port)
        end = fill(client, 150)
        await slave.connect()
        await slave.follow(end)
        store.process.send_signal(end_of_life)
        store.process.wait()
        await slave.leave()
        assert bytes(slave.log[:end]) == side.bytes(end)
    assert slave.end > 3 * MIB


async def test_tools_see_the_slave_and_what_it_lacks(side):
    client = Client(side.start().port)
    assert status(client).ha_connection_info == []
    end = fill(client, 10)
    slave = PythonSlave(side.ha_port)
    await slave.connect()
    await slave.follow(end)
    async with asyncio.timeout(30):
        while not (found := status(client).ha_connection_info) or found[0].diff:
            await asyncio.sleep(0.02)
    host, port = slave.writer.get_extra_info("sockname")
    assert (found[0].addr, found[0].in_sync, found[0].slave_ack_offset) == (f"{host}:{port}", True, end)
    await slave.leave()


async def test_a_send_does_not_wait_for_a_slave(side):
    client = Client(side.start().port)
    slave = PythonSlave(side.ha_port)
    await slave.connect()  # it reads nothing
    assert fill(client, 300) > 2 * MIB
    await slave.leave()


async def test_a_slave_that_is_ahead_is_refused_in_the_log_of_the_store(side):
    store = side.start()
    end = fill(Client(store.port), 1)
    slave = PythonSlave(side.ha_port, end + 1000)
    await slave.connect()
    assert await slave.is_closed()
    await slave.leave()
    store.stop()
    store.drain.join()
    (line,) = (line for line in store.lines if "HA port" in line)
    assert f"its log ends at {end + 1000}, this one at {end}" in line


def refused_start(tmp_path: Path, *settings: str) -> str:
    chosen = [f"store_dir={tmp_path / 'store'}", "port=0", *settings]
    words = [word for setting in chosen for word in ("--set", setting)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, SOURCES))}
    ended = subprocess.run(
        [sys.executable, "-m", "broker_store", *words],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 2
    return ended.stderr


def test_a_taken_ha_port_refuses_the_start(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        text = refused_start(tmp_path, "ha_protocol=on", f"ha_port={port}")
    assert f"the HA port {port} of 127.0.0.1 cannot be opened" in text


def test_by_default_there_is_no_ha_port_and_none_of_its_code(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, SOURCES))}
    program = "import sys, broker_store.process.assembly; print([name for name in sys.modules if name.startswith('broker_store.ha')])"
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
        check=True,
    )
    assert json.loads(ended.stdout) == []
