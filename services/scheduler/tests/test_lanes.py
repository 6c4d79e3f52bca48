"""What is decided is in no list any more, also when it is decided before it was read."""

from time import monotonic

import pytest

from scheduler import lanes as lanes_module
from scheduler.due_index import HORIZON_MS
from scheduler.entries import PARKED, Entry, key_of
from scheduler.lane_names import DELAYS, SET_ASIDE
from scheduler.lanes import Lanes
from scheduler.sqlite_index import SqliteIndex
from scheduler.store_clock import StoreClock

pytestmark = pytest.mark.anyio
NOW_MS = 1_700_000_000_000


def entry(offset, source=0, due_ms=NOW_MS + 1):
    return Entry(due_ms, key_of(source, offset), offset * 100, "t", 0, b"u%d" % offset, b"")


@pytest.fixture
async def lanes(tmp_path):
    clock = StoreClock()
    clock.heard(NOW_MS, monotonic(), NOW_MS)
    made = Lanes(SqliteIndex(tmp_path / "a.sqlite"), clock)
    yield made
    await made.far.close()


async def waiting(lanes):
    return sorted([one.offset for n in range(9) for one in await lanes.find(b"u%d" % n)])


@pytest.mark.parametrize("due_ms", [NOW_MS + 1, NOW_MS + 10 * HORIZON_MS])
async def test_what_was_decided_before_it_was_read_is_left_out_when_it_is(lanes, due_ms):
    lanes.read_until = lambda source: 1
    lanes.forget([entry(2, due_ms=due_ms)])
    lanes.arm([entry(offset, due_ms=due_ms) for offset in (1, 2, 3)], DELAYS)
    assert await waiting(lanes) == [1, 3]
    assert lanes.pending == 2
    lanes.read_until = lambda source: 4
    lanes.forget([entry(1, due_ms=due_ms)])
    assert await waiting(lanes) == [3]


async def test_a_parked_one_that_was_decided_before_it_was_read_is_not_counted(lanes):
    lanes.read_until = lambda source: 0
    lanes.forget([entry(0, PARKED)])
    lanes.arm([entry(0, PARKED), entry(1, PARKED)], SET_ASIDE)
    assert lanes.parked_count == 1
    assert await waiting(lanes) == [1]


async def test_keys_of_what_was_read_meanwhile_are_not_kept_for_ever(lanes, monkeypatch):
    monkeypatch.setattr(lanes_module, "DECIDED_UNREAD_MAX", 3)
    lanes.read_until = lambda source: 0
    lanes.forget([entry(offset) for offset in range(4)])
    lanes.read_until = lambda source: 3
    lanes.forget([entry(9)])
    lanes.arm([entry(offset) for offset in (2, 3, 9)], DELAYS)
    assert await waiting(lanes) == [2]
