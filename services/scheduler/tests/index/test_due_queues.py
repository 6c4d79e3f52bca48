"""A decided message is in no list, even when it was decided before it was read."""

from time import monotonic

import pytest
from read_to import ReadTo

from gantry_chassis.machine.environment import machine
from scheduler.index import due_queues as due_queues_module
from scheduler.index.due_index import HORIZON_MS
from scheduler.index.due_queue_names import DELAYS, PARKED_MESSAGES
from scheduler.index.due_queues import DueQueues
from scheduler.index.entries import PARKED, Entry, key_of
from scheduler.index.sqlite_index import SqliteIndex
from scheduler.index.store_clock import StoreClock

pytestmark = pytest.mark.anyio
NOW_MS = 1_700_000_000_000


def entry(offset, source=0, due_ms=NOW_MS + 1):
    return Entry(due_ms, key_of(source, offset), offset * 100, "t", 0, b"u%d" % offset, b"")


@pytest.fixture
async def due_queues(tmp_path):
    clock = StoreClock()
    clock.heard(NOW_MS, monotonic(), NOW_MS)
    made = DueQueues(SqliteIndex(tmp_path / "a.sqlite", machine().workers), clock, monotonic, ReadTo())
    yield made
    await made.far.close()


async def waiting(due_queues):
    return sorted([one.offset for n in range(9) for one in await due_queues.find(b"u%d" % n)])


@pytest.mark.parametrize("due_ms", [NOW_MS + 1, NOW_MS + 10 * HORIZON_MS])
async def test_a_message_decided_before_it_was_read_is_dropped_on_read(due_queues, due_ms):
    due_queues.read.offset = 1
    due_queues.forget([entry(2, due_ms=due_ms)])
    due_queues.arm([entry(offset, due_ms=due_ms) for offset in (1, 2, 3)], DELAYS)
    assert await waiting(due_queues) == [1, 3]
    assert due_queues.pending == 2
    due_queues.read.offset = 4
    due_queues.forget([entry(1, due_ms=due_ms)])
    assert await waiting(due_queues) == [3]


async def test_a_parked_message_decided_before_it_was_read_is_not_counted(due_queues):
    due_queues.read.offset = 0
    due_queues.forget([entry(0, PARKED)])
    due_queues.arm([entry(0, PARKED), entry(1, PARKED)], PARKED_MESSAGES)
    assert due_queues.parked_count == 1
    assert await waiting(due_queues) == [1]


async def test_keys_of_messages_already_read_are_dropped(due_queues, monkeypatch):
    monkeypatch.setattr(due_queues_module, "DECIDED_UNREAD_MAX", 3)
    due_queues.read.offset = 0
    due_queues.forget([entry(offset) for offset in range(4)])
    due_queues.read.offset = 3
    due_queues.forget([entry(9)])
    due_queues.arm([entry(offset) for offset in (2, 3, 9)], DELAYS)
    assert await waiting(due_queues) == [2]
