"""One real system for all tests of the client: use your own topics and groups, kill nothing."""

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from gantry_link.clients.nameservers import NameserverClient
from gantry_link.connections.pool import ConnectionPool
from gantrymq.testing import SystemOptions, gantry_broker

__all__ = ["gantry_broker"]

sys.path.append(str(Path(__file__).parent))  # what these tests share


@dataclass(frozen=True)
class Served:
    """What the clients under test speak to."""

    nameserver: str
    brokers: tuple[str, ...]
    """Addresses of the masters."""


@pytest.fixture(scope="session")
def served(request):
    """Give the system of the session, or the brokers behind the nameserver that SDK_NAMESERVER names: RocketMQ's own, for instance."""
    nameserver = os.environ.get("SDK_NAMESERVER")
    if nameserver is None:
        system = request.getfixturevalue("gantry_broker")
        return Served(system.nameserver, tuple(broker.address for broker in system.brokers))
    return Served(nameserver, asyncio.run(masters(nameserver)))


async def masters(nameserver):
    pool = ConnectionPool()
    info = await NameserverClient(pool, nameserver).cluster_info()
    await pool.close()
    return tuple(broker.broker_addrs[0] for broker in info.broker_addr_table.values())


@pytest.fixture(scope="session")
def anyio_backend():
    return ("asyncio", {"use_uvloop": True})


@pytest.fixture(scope="session")
def gantry_options() -> SystemOptions:
    """Two brokers; the fast refusal of what waited 200 ms would only tell how busy the machine is."""
    return SystemOptions(brokers=2, settings={"broker-store.send_wait_ms_max": "60000"})
