"""Lists give every message an id that a cancel finds, whatever address its store advertises."""

import asyncio
from time import monotonic
from types import SimpleNamespace

import pytest
from read_to import ReadTo
from schedule_records import HOST, V6, record

from gantry_chassis.machine.environment import machine
from gantry_link.errors import NotConnected
from gantry_wire.messages.ids import offset_message_id
from gantry_wire.names import TIMER_TOPIC
from gantry_wire.private_requests.scheduling import ListSchedules
from scheduler.index.due_queue_names import INSTANTS
from scheduler.index.due_queues import DueQueues
from scheduler.index.entries import TIMER, Entry, key_of
from scheduler.index.sqlite_index import SqliteIndex
from scheduler.index.store_clock import StoreClock
from scheduler.orders.listing import Listing

pytestmark = pytest.mark.anyio
NOW_MS = 1_700_000_000_000
POSITION = 4096


class Store:
    """A store with one record."""

    def __init__(self, address, stored):
        self.address, self._stored = address, stored

    async def view_message(self, position):
        assert position == POSITION
        if self._stored is None:
            raise NotConnected(f"not connected to {self.address}")
        return self._stored


@pytest.fixture
async def listed(tmp_path):
    clock = StoreClock()
    clock.heard(NOW_MS, monotonic(), NOW_MS)
    due_queues = DueQueues(SqliteIndex(tmp_path / "a.sqlite", machine().workers), clock, monotonic, ReadTo())
    named = Entry(NOW_MS + 60_000, key_of(TIMER, 1), 100, "t", 0, b"u1", b"")
    without_key = Entry(NOW_MS + 60_000, key_of(TIMER, 2), POSITION, "t", 0, b"", b"")
    due_queues.arm([named, without_key], INSTANTS)

    async def reach_end():
        return True

    async def ask(store):
        term = SimpleNamespace(
            broker="broker-a",
            due_queues=due_queues,
            client=store,
            catching_up=SimpleNamespace(is_open=True, is_complete=True, reach_end=reach_end),
        )
        ask.terms = [term]
        page = await Listing(lambda: ask.terms).schedules(ListSchedules(limit=10))
        return [one.id for one in page.schedules], page.incomplete

    ask.end_term = due_queues.far.close
    ask.far = due_queues.far
    yield ask
    await due_queues.far.close()


@pytest.mark.parametrize("host", [HOST, V6], ids=["IPv4", "IPv6"])
@pytest.mark.parametrize(
    "address", ["store.example:10911", "localhost:10911", "127.0.0.1:10911", "[::1]:10911", "10.0.0.9:1"]
)
async def test_a_message_without_a_unique_key_is_listed_by_its_record_id(listed, address, host):
    stored = record(TIMER_TOPIC, 0, 2, POSITION, host=host)
    ids, incomplete = await listed(Store(address, stored))
    assert (ids, incomplete) == (["u1", offset_message_id(host, POSITION)], [])


async def test_a_list_is_incomplete_without_a_message_its_store_does_not_show(listed):
    assert await listed(Store("store.example:10911", None)) == (["u1"], ["broker-a"])


@pytest.mark.parametrize("turns", range(8))
async def test_a_list_is_incomplete_without_a_term_that_ends_meanwhile(listed, turns):
    listing = asyncio.ensure_future(listed(Store("store.example:10911", None)))
    for _ in range(turns):
        await asyncio.sleep(0)
    await listed.end_term()
    assert (await listing)[1] == ["broker-a"]
    assert await listed(Store("store.example:10911", None)) == ([], ["broker-a"])


async def test_a_list_is_incomplete_if_its_term_ends_while_messages_are_loaded(listed, monkeypatch):
    await listed.far.load(INSTANTS, NOW_MS + 120_000, 10)  # what is loaded is lost with the term

    async def end_term():
        listed.terms.clear()

    monkeypatch.setattr(listed.far, "arrived", end_term)
    assert await listed(Store("store.example:10911", None)) == ([], ["broker-a"])
