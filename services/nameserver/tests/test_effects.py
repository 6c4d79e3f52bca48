"""Notices go to brokers at the hosts they registered from. The nameserver connects to nothing else."""

import asyncio
from types import SimpleNamespace

import pytest

from gantry_link.errors import NotConnected
from nameserver.effects import Outside
from nameserver.routes.tables import Change, Member, MinIdChanged

pytestmark = pytest.mark.anyio


class Pool:
    """Opens no connections and records the targets."""

    def __init__(self):
        self.addresses = []

    async def get(self, address):
        self.addresses.append(address)
        raise NotConnected(f"not connected to {address}")


@pytest.mark.parametrize(
    ("address", "remote", "is_notified"),
    [
        ("10.0.0.2:10911", "10.0.0.2", True),
        ("10.0.0.2:22", "10.0.0.2", True),
        ("10.0.0.2:10911", "::ffff:10.0.0.2", True),
        ("[2001:db8::2]:10911", "2001:db8::2", True),
        ("store.example:10911", "127.0.0.1", True),
        ("10.0.0.3:10911", "10.0.0.2", False),
        ("169.254.169.254:80", "10.0.0.2", False),
        ("127.0.0.1:6379", "10.0.0.2", False),
        ("localhost:6379", "10.0.0.2", False),
        ("nonsense", "10.0.0.2", False),
        ("10.0.0.2:10911", None, False),
    ],
)
async def test_a_notice_goes_only_to_the_host_its_broker_registered_from(address, remote, is_notified):
    pool = Pool()
    peers = {} if remote is None else {7: SimpleNamespace(remote=(remote, 40_000))}
    outside = Outside(SimpleNamespace(), pool, peers)
    notice = MinIdChanged("broker-a", 1, "10.0.0.9:10911", None, None, (Member(address, 7),))
    last = notice._replace(members=(Member("10.0.0.8:10911", 8),))
    peers[8] = SimpleNamespace(remote=("10.0.0.8", 40_000))
    outside.act(Change(notices=[notice, last]))
    sending = asyncio.ensure_future(outside.tell_brokers())
    async with asyncio.timeout(30):
        while "10.0.0.8:10911" not in pool.addresses:
            await asyncio.sleep(0)
    sending.cancel()
    assert pool.addresses == [address] * is_notified + ["10.0.0.8:10911"]
