"""Filtered pulls that end in the background."""

import asyncio
from math import ceil, log2

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_store import MemoryStore, bodies_of
from reading_side import SUSPEND, WITH_SUBSCRIPTION, ReadingSide, pull_fields

from broker_store.reading.filtered.filtered_pulls import ScanReading, Scans
from broker_store.reading.filtered.filtered_scan import FIRST_UNITS, Scan
from broker_store.reading.pull import Ask, BatchLimits, PullLimits
from gantry_wire.sql92.compiling import compile_filter

pytestmark = pytest.mark.anyio


async def test_a_message_that_arrives_in_the_turn_in_which_a_scan_ends_is_not_waited_past(
    tmp_path, monkeypatch
):
    side, right = ReadingSide(tmp_path), Scan._end
    for _ in range(FIRST_UNITS + 1):
        side.put(b"m", tags="blue")

    def end_and_arrive(scan):
        right(scan)
        monkeypatch.undo()
        asyncio.get_running_loop().call_soon(lambda: side.put(b"wanted", tags="red"))

    monkeypatch.setattr(Scan, "_end", end_and_arrive)
    fields = pull_fields(
        0, expressionType="SQL92", subscription="TAGS = 'red'", sysFlag=WITH_SUBSCRIPTION | SUSPEND,
        suspendTimeoutMillis=600_000,
    )  # fmt: skip
    side.consuming.settings.property_filter_enable = True
    async with asyncio.timeout(10):
        reply = await side.ask(11, fields)
    assert bodies_of(reply.body) == [b"wanted"]
    await side.consuming.stop()


async def scanned(store):
    """Return a whole scan of a queue whose records are read in the thread."""
    store.log.cold = True
    much = BatchLimits(10_000, 1 << 30)
    ask = Ask(0, 32, limits=PullLimits(much, much))
    scan = Scan(store.find("orders", 0), store.log, ask, compile_filter("n > 5"))

    async def in_thread(call, *arguments):
        return call(*arguments)

    done = asyncio.get_running_loop().create_future()
    if not Scans(ScanReading(store.log, in_thread)).run(scan, 0, lambda: True, done.set_result):
        assert await done is None
    return scan


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sampled_from(["match", "bad", "hole"]), min_size=1, max_size=30))
def test_what_can_be_read_is_found_around_what_cannot(places):
    store, expected = MemoryStore(), []
    for number, place in enumerate(places):
        if place == "hole" and number:
            store.find("orders", 0).put_hole()
            continue
        if place == "bad":
            store.log.damaged.add(store.log.end)
        else:
            expected.append(b"%d" % number)
        store.put(b"%d" % number, properties={"n": "9"})
    scan = asyncio.run(scanned(store))
    assert bodies_of(b"".join(scan.parts)) == expected
    assert scan.damaged == len(store.log.damaged)
    assert scan.found.next_offset == len(places)


async def test_a_damaged_record_costs_a_few_reads_and_not_one_for_each_of_its_neighbours():
    store, count = MemoryStore(), 500
    for _ in range(count):
        store.put(b"m", properties={"n": "1"})
    store.log.damaged.add(int.from_bytes(store.find("orders", 0).read(3, 1)[:8], "big"))
    scan = await scanned(store)
    assert (scan.damaged, scan.found.next_offset) == (1, count)
    assert len(store.log.reads) <= 2 * ceil(log2(count)) + 1
