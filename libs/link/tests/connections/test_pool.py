import asyncio
import random

import pytest
from scripted_link import ECHO, SILENT, eventually, serving

from gantry_link.connections import pool as pool_module
from gantry_link.connections.pool import BACKOFF_SECONDS_MAX, ConnectionPool
from gantry_link.errors import ConnectionLost, NotConnected
from gantry_link.limits import LinkLimits

pytestmark = pytest.mark.anyio


async def test_concurrent_callers_share_one_connection():
    async with serving() as (server, port):
        pool = ConnectionPool()
        address = f"127.0.0.1:{port}"
        assert pool.get_nowait(address) is None
        first, *others = await asyncio.gather(*(pool.get(address) for _ in range(20)))
        assert all(other is first for other in others)
        assert pool.get_nowait(address) is first
        assert server.metrics.accepted == 1
        assert pool.addresses() == [address]
        await pool.close()


async def test_connection_classes_have_separate_connections():
    async with serving() as (_, port):
        pool = ConnectionPool()
        address = f"127.0.0.1:{port}"
        assert await pool.get(address) is not await pool.get(address, "bulk")
        assert pool.connects == 2
        await pool.close()


async def test_a_lost_connection_is_reconnected():
    async with serving() as (server, port):
        pool = ConnectionPool()
        address = f"127.0.0.1:{port}"
        first = await pool.get(address)
        await first.request(ECHO)
        next(iter(server.peers.values())).abort()
        await eventually(lambda: pool.get_nowait(address) is None)
        second = await pool.get(address)
        assert second is not first
        assert (await second.request(ECHO, None, b"again")).body == b"again"
        await pool.close()


async def test_a_failed_address_is_retried_after_a_back_off():
    async with serving() as (_, port):
        pass
    pool = ConnectionPool(rng=random.Random(1))
    address = f"127.0.0.1:{port}"
    with pytest.raises(NotConnected, match="cannot connect"):
        await pool.get(address)
    with pytest.raises(NotConnected, match="next try in"):
        await pool.get(address)
    assert pool.failed_connects == 1
    slot = next(iter(pool._slots.values()))
    pauses = [slot.backoff_seconds]
    while len(pauses) < 4:
        await asyncio.sleep(0.05)
        with pytest.raises(NotConnected):
            await pool.get(address)
        if pool.failed_connects > len(pauses):
            pauses.append(slot.backoff_seconds)
    assert pauses == pytest.approx([0.05, 0.1, 0.2, 0.4])
    await pool.close()


async def test_a_restarted_server_is_found():
    async with serving() as (server, port):
        await server.close()
        pool, address = ConnectionPool(), f"127.0.0.1:{port}"
        for _ in range(30):
            await asyncio.sleep(0.02)
            with pytest.raises(NotConnected):
                await pool.get(address)
        slot = next(iter(pool._slots.values()))
        assert slot.retry_at - asyncio.get_running_loop().time() <= BACKOFF_SECONDS_MAX
        await server.listen("127.0.0.1", port)
        started = asyncio.get_running_loop().time()
        connection = None
        while connection is None:
            assert asyncio.get_running_loop().time() - started < 60
            try:
                connection = await pool.get(address)
            except NotConnected:
                await asyncio.sleep(0.02)
        assert (await connection.request(ECHO)).code == 0
        await pool.close()


async def test_an_idle_connection_is_closed_and_one_with_open_calls_is_kept(monkeypatch):
    monkeypatch.setattr(pool_module, "IDLE_SWEEP_SECONDS", 0.05)
    async with serving() as (server, port):
        pool = ConnectionPool(limits=LinkLimits(client_idle_seconds=0.1))
        idle, waiting = await pool.get(f"127.0.0.1:{port}"), await pool.get(f"127.0.0.1:{port}", "bulk")
        held = waiting.request(SILENT, timeout=2)
        await eventually(lambda: not idle.is_open)
        assert waiting.is_open
        held.cancel()
        await eventually(lambda: not server.peers)
        await pool.close()


async def test_an_unreachable_address_is_forgotten(monkeypatch):
    monkeypatch.setattr(pool_module, "IDLE_SWEEP_SECONDS", 0.05)
    monkeypatch.setattr(pool_module, "FORGET_SECONDS", 0.0)
    async with serving() as (server, port):
        pool = ConnectionPool()
        await pool.get(f"127.0.0.1:{port}")
        await server.close()
        await eventually(lambda: not pool._slots)
        await pool.close()


async def test_a_closed_pool_does_not_connect():
    async with serving() as (_, port):
        pool = ConnectionPool()
        connection = await pool.get(f"127.0.0.1:{port}")
        await pool.close()
        assert not connection.is_open
        with pytest.raises(NotConnected):
            await pool.get(f"127.0.0.1:{port}")


async def test_an_abandoned_address_ends_its_calls_and_no_others():
    async with serving(lambda _peer, _frame: None) as (_, port), serving(lambda _p, _f: None) as (_, other):
        pool, gone = ConnectionPool(), f"127.0.0.1:{port}"
        small, bulk = await pool.get(gone), await pool.get(gone, "bulk")
        pool.retire(gone)
        again, kept = await pool.get(gone), await pool.get(f"127.0.0.1:{other}")
        asked = [connection.request(10, timeout=60) for connection in (small, bulk, again, kept)]
        await eventually(lambda: not kept._unsent)
        pool.abandon(gone, "does not lead any more")
        for one in asked[:3]:
            with pytest.raises(ConnectionLost, match="does not lead any more") as lost:
                await one
            assert lost.value.sent
        assert not asked[3].done()
        assert (await pool.get(gone)).is_open
        await pool.close()
        with pytest.raises(ConnectionLost):
            await asked[3]


async def test_a_connect_to_a_silent_host_times_out(full_listener):
    pool = ConnectionPool(connect_seconds=0.2)
    with pytest.raises(NotConnected, match="no connection"):
        await pool.get(full_listener)
    await pool.close()


async def test_a_connection_is_handed_out_after_its_introduction_only():
    begun, allowed = [], asyncio.Event()

    async def introduce(connection):
        begun.append(connection)
        assert (await connection.request(ECHO)).code == 0
        await allowed.wait()

    async with serving() as (_, port):
        told = []
        pool = ConnectionPool(introduce=introduce, on_connected=lambda one, _: told.append(one))
        address = f"127.0.0.1:{port}"
        waiting = asyncio.gather(pool.get(address), pool.get(address))
        await eventually(lambda: begun)
        await asyncio.sleep(0.02)
        assert pool.get_nowait(address) is None
        assert not waiting.done()
        assert told == []
        allowed.set()
        first, second = await waiting
        assert first is second is begun[0]
        assert told == begun
        await pool.close()


@pytest.mark.parametrize("error", [NotConnected("not one of us"), ConnectionLost("it went", sent=True)])
async def test_a_refused_introduction_closes_the_connection_and_backs_off(error):
    told = []

    async def introduce(_connection):
        raise error

    async with serving() as (server, port):
        pool = ConnectionPool(
            introduce=introduce,
            on_connected=lambda *_: told.append("connected"),
            on_lost=lambda *_: told.append("lost"),
        )
        with pytest.raises(NotConnected, match=str(error)):
            await pool.get(f"127.0.0.1:{port}")
        with pytest.raises(NotConnected, match="next try in"):
            await pool.get(f"127.0.0.1:{port}")
        await eventually(lambda: server.metrics.accepted == 1 and not server.peers)
        assert (pool.failed_connects, pool.connects, told) == (1, 0, [])
        await pool.close()


async def test_an_introduction_that_takes_too_long_and_one_whose_connection_ends_are_refused():
    async def wait(_connection):
        await asyncio.Event().wait()

    async def end(connection):
        connection.close()

    async with serving() as (server, port):
        for introduce, words in ((wait, "no introduction to"), (end, "closed the connection")):
            pool = ConnectionPool(introduce=introduce, connect_seconds=0.1)
            with pytest.raises(NotConnected, match=words):
                await pool.get(f"127.0.0.1:{port}")
            await pool.close()
        await eventually(lambda: not server.peers)


async def test_a_cancelled_introduction_and_a_closed_pool_leave_no_connection():
    begun = asyncio.Event()

    async def introduce(connection):
        begun.set()
        await connection.request(SILENT, timeout=60)

    async with serving() as (server, port):
        pool = ConnectionPool(introduce=introduce)
        asking = asyncio.ensure_future(pool.get(f"127.0.0.1:{port}"))
        await begun.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await eventually(lambda: not server.peers)
        begun.clear()
        asking = asyncio.ensure_future(pool.get(f"127.0.0.1:{port}"))
        await begun.wait()
        await pool.close()
        with pytest.raises(NotConnected):
            await asking
        await eventually(lambda: not server.peers)
