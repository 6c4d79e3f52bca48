"""Whatever a queue holds, filtered pulls return exactly what matches, once, in order, and end at the queue's end."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from memory_store import MemoryStore, bodies_of

from broker_store.reading.filtered.filtered_scan import (
    FIRST_UNITS,
    GAP_BYTES_MAX,
    SCAN_UNITS_MAX,
    SLICE_UNITS,
    Scan,
    properties_at,
)
from broker_store.reading.pull import Ask, BatchLimits, PullLimits, PullStatus
from gantry_wire.messages.ids import pack_host
from gantry_wire.messages.properties import format_properties
from gantry_wire.records.message_record import build_record
from gantry_wire.sql92.compiling import compile_filter

WANTED = compile_filter("n > 5")
PLACES = st.lists(st.sampled_from(["match", "other", "hole", "gap", "foreign"]), max_size=60)


def store_of(places):
    """Return a store whose queue has these messages, and the bodies that match."""
    store, expected = MemoryStore(), []
    for number, place in enumerate(["other", *places]):
        body = b"%d" % number
        if place == "hole":
            store.find("orders", 0).put_hole()
        elif place == "gap":
            store.put(b"x" * (GAP_BYTES_MAX + 1), queue_id=1)
        elif place == "foreign":
            store.put(b"y", queue_id=2, properties={"n": "9"})
        else:
            store.put(body, properties={"n": "9" if place == "match" else "1"})
            if place == "match":
                expected.append(body)
    return store, expected


def run(store, scan, slice_units):
    while (stretch := scan.next_stretch(slice_units)) is not None:
        data = store.log.read(stretch.start, stretch.size) if stretch.size else b""
        if scan.look(stretch, data):
            break


def pull_all(store, count, size, slice_units):
    """Pull to the end as a client does."""
    limits = PullLimits(BatchLimits(count, size), BatchLimits(count, size))
    queue, offset, found = store.find("orders", 0), 0, []
    while offset < queue.max_offset:
        scan = Scan(queue, store.log, Ask(offset, count, limits=limits), WANTED)
        run(store, scan, slice_units)
        assert scan.found.next_offset > offset
        assert len(scan.parts) == scan.found.count == len(scan.found.spans) <= count
        assert scan.found.size == sum(map(len, scan.parts))
        offset = scan.found.next_offset
        found += bodies_of(b"".join(scan.parts))
    return found


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(PLACES, st.integers(1, 8), st.sampled_from([1, 300, 100_000]), st.sampled_from([1, 3, SLICE_UNITS]))
def test_pulls_give_what_matches_once_and_in_order(places, count, size, slice_units):
    store, expected = store_of(places)
    assert pull_all(store, count, size, slice_units) == expected


def test_a_scan_reports_how_it_ended():
    store, _ = store_of(["other", "other"])
    scan = Scan(store.find("orders", 0), store.log, Ask(0, 32), WANTED)
    run(store, scan, SLICE_UNITS)
    assert (scan.found.status, scan.found.next_offset) == (PullStatus.OFFSET_OVERFLOW_ONE, 3)
    store.log.min_position = store.log.end
    scan = Scan(store.find("orders", 0), store.log, Ask(0, 32), WANTED)
    run(store, scan, SLICE_UNITS)
    assert scan.found.status is PullStatus.MESSAGE_WAS_REMOVING


def test_a_scan_continues_where_the_queue_begins_after_retention_has_removed_what_lay_ahead():
    store, expected = store_of(["other", "other", "match", "other", "match"])
    queue = store.find("orders", 0)
    scan = Scan(queue, store.log, Ask(0, 32), WANTED)
    stretch = scan.next_stretch(2)
    assert not scan.look(stretch, store.log.read(stretch.start, stretch.size))
    queue.min_offset = 3
    run(store, scan, 2)
    assert bodies_of(b"".join(scan.parts)) == expected
    assert scan.found.next_offset == 6


def test_a_scan_without_a_match_asks_for_another_pull_after_retention_has_removed_what_lay_ahead():
    store, _ = store_of(["other"] * 5)
    queue = store.find("orders", 0)
    scan = Scan(queue, store.log, Ask(0, 32), WANTED)
    queue.min_offset = 4
    run(store, scan, 2)
    assert (scan.found.status, scan.found.next_offset) == (PullStatus.MESSAGE_WAS_REMOVING, 6)


def test_a_message_that_arrives_during_a_scan_is_looked_at_by_the_next():
    store, _ = store_of(["other"])
    scan = Scan(store.find("orders", 0), store.log, Ask(0, 32), WANTED)
    stretch = scan.next_stretch()
    store.put(b"late", properties={"n": "9"})
    scan.look(stretch, store.log.read(stretch.start, stretch.size))
    assert scan.next_stretch() is None
    assert (scan.found.status, scan.found.next_offset) == (PullStatus.NO_MATCHED_MESSAGE, 2)


def long_expression(steps):
    return compile_filter(" OR ".join(f"n = '{number}'" for number in range(10, 10 + steps)))


def looked_at(store, wanted):
    """Return how many records are checked in one slice of a pull, in its first part, and in all of it."""
    queue = store.find("orders", 0)
    scan = Scan(queue, store.log, Ask(0, 32), wanted)
    one_slice = len(scan.next_stretch().units)
    first = 0
    while not scan.is_begun:
        stretch = scan.next_stretch(FIRST_UNITS)
        scan.look(stretch, store.log.read(stretch.start, stretch.size))
        first = scan.found.next_offset
    run(store, scan, SLICE_UNITS)
    return one_slice, first, scan.found


def test_a_large_filter_looks_at_fewer_records_in_a_slice_and_in_a_pull():
    store, _ = store_of(["other"] * 600)
    assert looked_at(store, WANTED)[:2] == (SLICE_UNITS, FIRST_UNITS)
    for steps in (100, 1000, 2000):
        one_slice, first, found = looked_at(store, long_expression(steps))
        assert 1 <= one_slice <= SLICE_UNITS * 16 // steps
        assert 1 <= first <= max(FIRST_UNITS * 16 // steps, 1)
        assert found.next_offset <= max(SCAN_UNITS_MAX * 16 // steps, 1)
        assert found.next_offset < 601 or steps == 100
        is_cut_short = found.next_offset < 601
        status = PullStatus.NO_MATCHED_MESSAGE if is_cut_short else PullStatus.OFFSET_OVERFLOW_ONE
        assert found.status is status


HOSTS = st.sampled_from([pack_host("127.0.0.1", 1), pack_host("::1", 1)])


@given(st.binary(max_size=20), st.sampled_from([5, 127, 200]), HOSTS, HOSTS, st.binary(max_size=9))
def test_properties_are_found_in_every_kind_of_record(body, topic_size, born, stored, before):
    properties = format_properties({"n": "5", "long": "x" * 50})
    record = build_record(b"t" * topic_size, 0, 1, 2, body, properties, 0, 0, 3, born, 4, stored)
    assert properties_at(before + record + b"after", len(before), len(record)) == properties


@given(st.binary(max_size=200), st.integers(0, 200), st.integers(-5, 300))
def test_bytes_that_are_no_record_have_no_properties_or_some(data, at, size):
    found = properties_at(data, at, size)
    assert found is None or len(found) <= max(size, 0)
