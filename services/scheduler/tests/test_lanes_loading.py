"""What is on its way from the file into memory is found, listed and forgotten like everything else that waits."""

import asyncio
import threading
from time import monotonic
from types import SimpleNamespace

import pytest

from gantry_wire.scheduler_bodies import ListSchedules
from scheduler import far_rows
from scheduler.due_index import HORIZON_MS
from scheduler.entries import Entry, key_of
from scheduler.lane_names import DELAYS
from scheduler.lanes import Lanes
from scheduler.listing import Listing
from scheduler.sqlite_index import SqliteIndex
from scheduler.store_clock import StoreClock

pytestmark = pytest.mark.anyio
NOW_MS = 1_700_000_000_000
FAR_MS = NOW_MS + 2 * HORIZON_MS


@pytest.fixture
async def lanes(tmp_path):
    clock = StoreClock()
    clock.heard(NOW_MS, monotonic(), NOW_MS)
    made = Lanes(SqliteIndex(tmp_path / "a.sqlite"), clock)
    made.arm([one := entry()], DELAYS)
    assert made.due[DELAYS].far_count == 1
    assert one.key not in made.due[DELAYS].near
    yield made
    await made.far.close()


@pytest.fixture
async def arrive(lanes, monkeypatch):
    """Take the message out of the file; a call of this lets it arrive in memory."""
    take_out, taken, go_on = far_rows.take_out, threading.Event(), threading.Event()

    def slow(*arguments):
        rows = take_out(*arguments)
        taken.set()
        go_on.wait(30)
        return rows

    monkeypatch.setattr(far_rows, "take_out", slow)
    loading = asyncio.ensure_future(lanes.load(DELAYS, FAR_MS, 10))
    await asyncio.to_thread(taken.wait, 30)
    yield go_on.set
    go_on.set()
    await loading


def entry():
    return Entry(FAR_MS, key_of(0, 1), 100, "t", 0, b"u1", b"")


async def after_a_while(arrive, asked):
    """Have the message arrive when what was asked for has looked where it can."""
    asking = asyncio.ensure_future(asked)
    await asyncio.sleep(0.1)
    arrive()
    return await asking


async def test_it_is_found(lanes, arrive):
    assert await after_a_while(arrive, lanes.find(b"u1")) == [entry()]


async def test_it_is_listed_once(lanes, arrive):
    async def reach_end():
        return True

    term = SimpleNamespace(
        broker="broker-a",
        lanes=lanes,
        client=SimpleNamespace(address="127.0.0.1:1"),
        catching_up=SimpleNamespace(is_open=True, is_complete=True, reach_end=reach_end),
    )
    page = await after_a_while(arrive, Listing(lambda: [term]).schedules(ListSchedules(limit=10)))
    assert [one.id for one in page.schedules] == ["u1"]


async def test_once_decided_it_waits_no_more(lanes, arrive):
    lanes.forget([entry()])
    assert await after_a_while(arrive, lanes.find(b"u1")) == []
    await lanes.far.find(b"u1")
    assert lanes.pending == 0
