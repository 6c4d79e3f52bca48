"""A checker with access control: its port serves services of the cluster alone, and it introduces itself."""

import asyncio
import base64
import os
import urllib.error
import urllib.request

import pytest
from checker_processes import Process, until

from gantry_guard.cluster_keys import ClusterKeys
from gantry_guard.introduction import Introducer
from gantry_link.connections.connection import connect
from gantry_link.connections.pool import ConnectionPool
from gantry_wire.codes import GantryCode

pytestmark = [pytest.mark.cluster]
KEY = b"k" * 32
KEYS = ClusterKeys({"k1": KEY})
PATIENCE_SECONDS = 60


@pytest.fixture
def started(tmp_path):
    """Starts processes that end with the test, with the keys of one cluster."""
    keys = tmp_path / "keys"
    keys.write_text(f"k1 {base64.b64encode(KEY).decode()}\n")
    keys.chmod(0o600)
    processes = []

    def start(module, *settings):
        process = Process(module, "port=0", "http_port=0", f"access_key_file={keys}", *settings)
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.stop()


def health(process):
    try:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{process.http_port}/health/ready", timeout=10
        ) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


async def answers_of(address):
    """Return the codes that a stranger and a service of the cluster are answered."""
    codes = []
    pool = ConnectionPool(introduce=Introducer(KEYS.inner, "gateway", os.urandom))
    for connection in (await connect(address), await pool.get(address)):
        answer = await connection.request(GantryCode.LIST_TRANSACTIONS, {}, b"{}", PATIENCE_SECONDS)
        codes.append(answer.code)
        connection.close()
    await pool.close()
    return codes


def test_only_services_of_the_cluster_are_served(started):
    checker = started("txn_checker", "nameservers=127.0.0.1:1")
    assert asyncio.run(answers_of(f"127.0.0.1:{checker.port}")) == [16, 0]


def test_it_introduces_itself_to_a_nameserver(started, tmp_path):
    names = started("nameserver", f"data_dir={tmp_path / 'ns'}")
    checker = started("txn_checker", f"nameservers=127.0.0.1:{names.port}")
    until(lambda: health(checker) == 200, "a nameserver answers")
