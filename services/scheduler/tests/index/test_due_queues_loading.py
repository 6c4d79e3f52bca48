"""A message being loaded from the file is found, listed and forgotten like any other."""

import asyncio
import threading
from time import monotonic
from types import SimpleNamespace

import pytest
from read_to import ReadTo

from gantry_chassis.machine.environment import machine
from gantry_wire.private_requests.scheduling import ListSchedules
from scheduler.index import far_rows
from scheduler.index.due_index import HORIZON_MS
from scheduler.index.due_queue_names import DELAYS
from scheduler.index.due_queues import DueQueues
from scheduler.index.entries import Entry, key_of
from scheduler.index.sqlite_index import SqliteIndex
from scheduler.index.store_clock import StoreClock
from scheduler.orders.listing import Listing

pytestmark = pytest.mark.anyio
NOW_MS = 1_700_000_000_000
FAR_MS = NOW_MS + 2 * HORIZON_MS


@pytest.fixture
async def due_queues(tmp_path):
    clock = StoreClock()
    clock.heard(NOW_MS, monotonic(), NOW_MS)
    made = DueQueues(SqliteIndex(tmp_path / "a.sqlite", machine().workers), clock, monotonic, ReadTo())
    made.arm([one := entry()], DELAYS)
    assert made.due[DELAYS].far_count == 1
    assert one.key not in made.due[DELAYS].near
    yield made
    await made.far.close()


@pytest.fixture
async def arrive(due_queues, monkeypatch):
    """Take the message out of the file; calling the fixture lets it arrive in memory."""
    take_out, taken, go_on = far_rows.take_out, threading.Event(), threading.Event()

    def slow(*arguments):
        rows = take_out(*arguments)
        taken.set()
        go_on.wait(30)
        return rows

    monkeypatch.setattr(far_rows, "take_out", slow)
    loading = asyncio.ensure_future(due_queues.load(DELAYS, FAR_MS, 10))
    await asyncio.to_thread(taken.wait, 30)
    yield go_on.set
    go_on.set()
    await loading


def entry():
    return Entry(FAR_MS, key_of(0, 1), 100, "t", 0, b"u1", b"")


async def after_a_while(arrive, asked):
    """Let the message arrive after the query has looked everywhere."""
    asking = asyncio.ensure_future(asked)
    await asyncio.sleep(0.1)
    arrive()
    return await asking


async def test_it_is_found(due_queues, arrive):
    assert await after_a_while(arrive, due_queues.find(b"u1")) == [entry()]


async def test_it_is_listed_once(due_queues, arrive):
    async def reach_end():
        return True

    term = SimpleNamespace(
        broker="broker-a",
        due_queues=due_queues,
        client=SimpleNamespace(address="127.0.0.1:1"),
        catching_up=SimpleNamespace(is_open=True, is_complete=True, reach_end=reach_end),
    )
    page = await after_a_while(arrive, Listing(lambda: [term]).schedules(ListSchedules(limit=10)))
    assert [one.id for one in page.schedules] == ["u1"]


async def test_a_decided_message_no_longer_waits(due_queues, arrive):
    due_queues.forget([entry()])
    assert await after_a_while(arrive, due_queues.find(b"u1")) == []
    await due_queues.far.find(b"u1")
    assert due_queues.pending == 0
