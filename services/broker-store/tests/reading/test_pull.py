"""Selecting and reading: RocketMQ 5.3.3's statuses and next offsets, limits, filters, holes, damage."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_store import MemoryQueue, MemoryStore, bodies_of

from broker_store.log.consume_queues.unit_claims import Claims
from broker_store.log.errors import DamagedRecord, PositionNotVisible, PositionRemoved
from broker_store.reading.pull import Ask, BatchLimits, PullLimits, PullStatus, reply_code, select
from broker_store.reading.pull_reading import GAP_BYTES_MAX, read_slowly, read_spans
from gantry_wire.codes import ResponseCode
from gantry_wire.records.units import CONSUME_QUEUE_UNIT
from gantry_wire.subscription import EVERYTHING, TagFilter

RED = TagFilter.parse("red")


def filled(count=10, **message):
    store = MemoryStore()
    for number in range(count):
        store.put(b"m%d" % number, **message)
    return store, store.find("orders", 0)


def pulled(store, ask, queue_id=0):
    """Select and read: (status, next offset, bodies)."""
    selection = select(store.find("orders", queue_id), store.log, ask)
    read = store.log.read_nowait
    parts = read_spans(selection.spans, read, selection.claims) if selection.spans else []
    return selection.status, selection.next_offset, bodies_of(b"".join(parts))


@pytest.mark.parametrize(
    ("offset", "status", "next_offset", "code"),
    [
        (0, PullStatus.OFFSET_TOO_SMALL, 2, 21),
        (2, PullStatus.FOUND, 10, 0),
        (10, PullStatus.OFFSET_OVERFLOW_ONE, 10, 19),
        (11, PullStatus.OFFSET_OVERFLOW_BADLY, 10, 21),
    ],
)
def test_every_offset_has_its_status_and_its_next_offset(offset, status, next_offset, code):
    store, queue = filled()
    queue.min_offset = 2
    selection = select(queue, store.log, Ask(offset, 32))
    assert (selection.status, selection.next_offset) == (status, next_offset)
    assert (selection.min_offset, selection.max_offset) == (2, 10)
    assert reply_code(selection.status, offset) == code


@pytest.mark.parametrize("queue", [None, MemoryQueue()])
def test_an_empty_queue_is_moved_only_for_an_offset_above_zero(queue):
    selection = select(queue, MemoryStore().log, Ask(7, 32))
    assert (selection.status, selection.next_offset) == (PullStatus.NO_MESSAGE_IN_QUEUE, 0)
    assert reply_code(selection.status, 7) is ResponseCode.PULL_OFFSET_MOVED
    assert reply_code(selection.status, 0) is ResponseCode.PULL_NOT_FOUND


def test_records_that_touch_are_answered_with_one_log_read():
    store, _ = filled()
    status, next_offset, bodies = pulled(store, Ask(3, 4))
    assert (status, next_offset, bodies) == (PullStatus.FOUND, 7, [b"m3", b"m4", b"m5", b"m6"])
    assert len(store.log.reads) == 1


def test_records_with_others_between_them_are_cut_out_of_one_read():
    store = MemoryStore()
    for number in range(6):
        store.put(b"m%d" % number, queue_id=number % 2)
    assert pulled(store, Ask(0, 32)) == (PullStatus.FOUND, 3, [b"m0", b"m2", b"m4"])
    assert len(store.log.reads) == 1


def test_records_far_apart_are_read_by_groups():
    store = MemoryStore()
    for number in range(3):
        store.put(b"m%d" % number)
        store.put(b"near", queue_id=1)
        store.put(b"m%d'" % number)
        store.put(b"x" * 200_000, queue_id=1)
    assert pulled(store, Ask(0, 32))[2] == [b"m0", b"m0'", b"m1", b"m1'", b"m2", b"m2'"]
    assert len(store.log.reads) == 3


def test_a_reply_never_exceeds_count_and_size_but_carries_one_message():
    store, _ = filled(40)
    assert pulled(store, Ask(0, 100))[1] == 32
    assert pulled(store, Ask(0, 5))[1] == 5
    assert pulled(store, Ask(0, 0))[1] == 1
    one = sum(select(store.find("orders", 0), store.log, Ask(0, 1)).spans[0])
    small = PullLimits(memory=BatchLimits(32, one * 2 + 5))
    assert pulled(store, Ask(0, 32, EVERYTHING, small))[1] == 2
    assert pulled(store, Ask(0, 32, EVERYTHING, PullLimits(memory=BatchLimits(32, 1))))[1] == 1


def test_messages_far_behind_the_end_have_the_disks_limits():
    store, _ = filled(40)
    far = PullLimits(memory_bytes=100)
    assert pulled(store, Ask(0, 32, EVERYTHING, far))[1] == 8


def test_a_filter_skips_other_tags_and_returns_the_offset_it_reached():
    store = MemoryStore()
    for number in range(12):
        store.put(b"m%d" % number, tags=("red", "blue", "green")[number % 3])
    assert pulled(store, Ask(0, 32, RED)) == (PullStatus.FOUND, 12, [b"m0", b"m3", b"m6", b"m9"])
    several = TagFilter.parse("red || green")
    assert pulled(store, Ask(0, 3, several)) == (PullStatus.FOUND, 5, [b"m0", b"m2", b"m3"])


def test_no_wanted_message_among_the_checked_ones_gives_no_matched_message():
    store, _ = filled(900, tags="blue")
    status, next_offset, bodies = pulled(store, Ask(0, 32, RED))
    assert (status, next_offset, bodies) == (PullStatus.NO_MATCHED_MESSAGE, 800, [])
    assert reply_code(status, 0) is ResponseCode.PULL_RETRY_IMMEDIATELY


def test_an_extension_address_matches_and_leaves_the_check_to_the_client():
    store, queue = filled(1)
    position, size, _ = CONSUME_QUEUE_UNIT.unpack(queue.units)
    queue.units[:] = CONSUME_QUEUE_UNIT.pack(position, size, -(2**63) + 40)
    assert pulled(store, Ask(0, 32, RED))[0] is PullStatus.FOUND


def test_a_hole_is_passed_over_and_never_served():
    store, queue = filled(2)
    queue.put_hole()
    store.put(b"after")
    assert pulled(store, Ask(0, 32)) == (PullStatus.FOUND, 4, [b"m0", b"m1", b"after"])
    assert pulled(store, Ask(2, 1))[2] == [b"after"]
    queue.put_hole()
    assert pulled(store, Ask(4, 32))[:2] == (PullStatus.NO_MATCHED_MESSAGE, 5)


def test_units_of_a_removed_segment_are_passed_over():
    store, queue = filled(4)
    store.log.min_position = CONSUME_QUEUE_UNIT.unpack(queue.read(2, 1))[0]
    assert pulled(store, Ask(0, 32)) == (PullStatus.FOUND, 4, [b"m2", b"m3"])
    store.log.min_position = store.log.end
    assert pulled(store, Ask(0, 32))[:2] == (PullStatus.MESSAGE_WAS_REMOVING, 4)


def test_a_gap_in_the_queue_leads_to_its_next_file():
    store, queue = filled(3)
    queue.read = lambda _offset, _count: b""
    selection = select(queue, store.log, Ask(1, 32))
    assert (selection.status, selection.next_offset) == (PullStatus.OFFSET_FOUND_NULL, 3)


def test_bytes_that_are_not_in_memory_are_not_waited_for():
    store, queue = filled(3)
    store.log.cold = True
    selection = select(queue, store.log, Ask(0, 32))
    assert read_spans(selection.spans, store.log.read_nowait) is None


def test_records_far_apart_are_read_one_by_one_and_near_ones_together():
    log, reads = bytes(range(256)) * 12_000, []
    far = 300_000
    spans = [(0, 90), (95, 40), (far, 70), (far + 70, 30), (3 * far, 50), (3 * far + GAP_BYTES_MAX + 50, 60)]

    def read(position, size):
        reads.append((position, size))
        return log[position : position + size]

    assert read_spans(spans, read) == [log[position : position + size] for position, size in spans]
    assert reads == [(0, 135), (far, 100), (3 * far, GAP_BYTES_MAX + 110)]
    reads.clear()
    alone = spans[::2]
    assert read_spans(alone, read) == [log[position : position + size] for position, size in alone]
    assert reads == alone
    assert read_spans(spans, lambda position, size: read(position, size) if position < far else None) is None


@pytest.mark.parametrize("unit", [(0, 1, 4), (1, 0, 1 << 40), (1, 1, -20), (2, 1, 256), (0, 0, 400)])
def test_a_damaged_unit_of_an_earlier_run_never_cuts_other_bytes_out_of_the_log(unit):
    store, queue = filled(3)
    queue.old_end = 3
    spans = [(position, size) for position, size, _ in CONSUME_QUEUE_UNIT.iter_unpack(queue.read(0, 3))]
    assert len(bodies_of(b"".join(read_spans(spans, store.log.read, claims_of(queue, spans))))) == 3
    number, field, by = unit
    spans[number] = tuple(value + by * (field == each) for each, value in enumerate(spans[number]))
    with pytest.raises((DamagedRecord, PositionNotVisible)):
        read_spans(spans, store.log.read, claims_of(queue, spans))


def claims_of(queue, spans):
    return Claims(queue, range(len(spans)), *zip(*spans, strict=True))


@pytest.mark.parametrize("apart", [0, 1000, 200_000])
def test_records_that_lie_apart_are_compared_with_their_units(apart):
    store = MemoryStore()
    for number in range(4):
        store.put(b"m%d" % number)
        store.put(b"o%d" % number, queue_id=1)
        store.put(b"x" * apart, queue_id=2)
    queue = store.find("orders", 0)
    queue.old_end = 4
    assert pulled(store, Ask(0, 32))[2] == [b"m0", b"m1", b"m2", b"m3"]
    other = store.find("orders", 1).read(2, 1)
    queue.units[2 * len(other) : 3 * len(other)] = other
    with pytest.raises(DamagedRecord):
        pulled(store, Ask(0, 32))
    _, parts, damaged = read_in_thread(store, Ask(0, 32))
    assert (bodies_of(b"".join(parts)), damaged) == ([b"m0", b"m1", b"m3"], 1)


async def _at_once(function, *arguments):
    return function(*arguments)


def read_in_thread(store, ask):
    queue = store.find("orders", 0)
    return asyncio.run(read_slowly(queue, store.log, ask, select(queue, store.log, ask), _at_once))


def test_a_damaged_record_is_left_out_counted_and_passed():
    store, queue = filled(5)
    store.log.damaged = {CONSUME_QUEUE_UNIT.unpack(queue.read(2, 1))[0] + 90}
    selection, parts, damaged = read_in_thread(store, Ask(0, 32))
    assert bodies_of(b"".join(parts)) == [b"m0", b"m1", b"m3", b"m4"]
    assert (selection.next_offset, selection.count, damaged) == (5, 4, 1)
    assert selection.size == sum(map(len, parts))


def test_only_damage_gives_no_matched_message_after_it():
    store, _ = filled(1)
    store.log.damaged = {90}
    selection, parts, damaged = read_in_thread(store, Ask(0, 32))
    assert (selection.status, selection.next_offset, parts, damaged) == (
        PullStatus.NO_MATCHED_MESSAGE,
        1,
        [],
        1,
    )


def test_messages_removed_by_retention_during_a_read_are_selected_again():
    store, queue = filled(4)
    ask = Ask(0, 32)
    selection = select(queue, store.log, ask)
    store.log.min_position = CONSUME_QUEUE_UNIT.unpack(queue.read(3, 1))[0]
    selection, parts, _ = asyncio.run(read_slowly(queue, store.log, ask, selection, _at_once))
    assert bodies_of(b"".join(parts)) == [b"m3"]


def test_a_log_that_keeps_shrinking_ends_in_was_removing():
    store, queue = filled(2)

    def gone(position, size):
        raise PositionRemoved(position, size)

    store.log.read = gone
    selection, parts, _ = asyncio.run(
        read_slowly(queue, store.log, Ask(0, 32), select(queue, store.log, Ask(0, 32)), _at_once)
    )
    assert (selection.status, parts) == (PullStatus.MESSAGE_WAS_REMOVING, [])


@settings(max_examples=60, deadline=None)
@given(
    layout=st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["red", "blue", ""])), max_size=60),
    count=st.integers(1, 40),
    wanted=st.sampled_from([EVERYTHING, RED, TagFilter.parse("red||blue")]),
)
def test_pulling_on_from_the_next_offset_gives_every_wanted_message_once(layout, count, wanted):
    store = MemoryStore()
    expected = []
    for number, (queue_id, tag) in enumerate(layout):
        code = store.put(b"%d" % number, queue_id=queue_id, tags=tag)
        if queue_id == 0 and wanted.matches(code):
            expected.append(b"%d" % number)
    offset, found = 0, []
    for _ in range(len(layout) + 1):
        status, next_offset, bodies = pulled(store, Ask(offset, count, wanted))
        found += bodies
        if status in {PullStatus.OFFSET_OVERFLOW_ONE, PullStatus.NO_MESSAGE_IN_QUEUE}:
            break
        assert next_offset > offset
        offset = next_offset
    assert found == expected
