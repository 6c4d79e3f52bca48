"""A scheduler with access control: its port serves services of the cluster alone, and it introduces itself."""

import asyncio
import base64
import os
import urllib.error
import urllib.request

import pytest
from scheduler_system import Process

from gantry_access.signatures.remoting import sign
from gantry_access.signatures.signing_key import SigningKey
from gantry_guard.cluster_keys import ClusterKeys
from gantry_guard.introduction import Introducer
from gantry_link.connections.connection import connect
from gantry_link.connections.pool import ConnectionPool
from gantry_wire.codes import GantryCode

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]
KEY = b"k" * 32
KEYS = ClusterKeys({"k1": KEY})
PATIENCE_SECONDS = 60


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "keys"
    path.write_text(f"k1 {base64.b64encode(KEY).decode()}\n")
    path.chmod(0o600)
    return path


class Started:
    """Processes that end with the test."""

    def __init__(self):
        self.processes = []

    async def start(self, module, **settings):
        process = await asyncio.to_thread(Process, module, port=0, http_port=0, **settings)
        self.processes.append(process)
        return process

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        for process in self.processes:
            await asyncio.to_thread(process.end)


def health(process):
    http_port = int(process.lines[-1].rpartition("http=http://127.0.0.1:")[2].split()[0])
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{http_port}/health/ready", timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


async def test_only_services_of_the_cluster_are_served(tmp_path, key_file):
    async with Started() as started:
        scheduler = await started.start(
            "scheduler", data_dir=tmp_path / "s", access_key_file=key_file, nameservers="127.0.0.1:1"
        )
        stranger = await connect(scheduler.address)
        signed = sign({}, b"{}", "root", SigningKey("a secret"))
        for code in (GantryCode.LIST_SCHEDULES, GantryCode.CANCEL_SCHEDULE, GantryCode.TASK_CREATE, 105, 0):
            for fields in ({}, signed, {"inner": "gateway"}):
                assert (await stranger.request(code, fields, b"{}", PATIENCE_SECONDS)).code == 16
        stranger.close()
        pool = ConnectionPool(introduce=Introducer(KEYS.inner, "gateway", os.urandom))
        service = await pool.get(scheduler.address)
        assert (await service.request(GantryCode.LIST_SCHEDULES, {}, b"{}", PATIENCE_SECONDS)).code == 0
        await pool.close()


async def test_it_introduces_itself_to_a_nameserver_and_without_the_keys_it_finds_none(tmp_path, key_file):
    async with Started() as started:
        names = await started.start("nameserver", data_dir=tmp_path / "n", access_key_file=key_file)
        with_keys = await started.start(
            "scheduler", data_dir=tmp_path / "s", access_key_file=key_file, nameservers=names.address
        )
        without = await started.start("scheduler", data_dir=tmp_path / "t", nameservers=names.address)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while await asyncio.to_thread(health, with_keys) != 200:
                await asyncio.sleep(0.05)
        assert await asyncio.to_thread(health, without) == 503
