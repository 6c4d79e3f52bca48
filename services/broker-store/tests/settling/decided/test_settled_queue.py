"""The bitmap of decided items, against a plain set."""

import itertools
import sys

from hypothesis import given
from hypothesis import strategies as st

from broker_store.settling.decided.settled_queue import PAGE_ITEMS, SettledQueue

OFFSETS = st.integers(0, 40) | st.integers(PAGE_ITEMS - 20, PAGE_ITEMS + 20) | st.integers(0, 3 * PAGE_ITEMS)
STEPS = st.lists(st.tuples(st.sampled_from(["one", "one", "run", "floor"]), OFFSETS), max_size=40)


def play(steps):
    settled, model, floor = SettledQueue(), set(), 0
    for kind, offset in steps:
        if kind == "floor":
            settled.raise_cursor(offset)
            floor = max(floor, offset)
        for one in range(offset, offset + (900 if kind == "run" else 1)) if kind != "floor" else ():
            assert settled.settle(one) == (one not in model and one >= floor and not below(model, floor, one))
            model.add(one)
    return settled, model, floor


def below(model, floor, offset):
    return offset < cursor(model, floor)


def cursor(model, floor):
    while floor in model:
        floor += 1
    return floor


@given(STEPS)
def test_it_is_a_set_with_a_cursor(steps):
    settled, model, floor = play(steps)
    expected = cursor(model, floor)
    assert settled.cursor == expected
    above = {offset for offset in model if offset > expected}
    assert {offset for first, end in settled.ranges() for offset in range(first, end)} == above
    assert settled.settled_above == len(above)
    assert all(
        settled.is_settled(offset) == (offset in above or offset < expected)
        for offset in range(4 * PAGE_ITEMS)
    )


@given(STEPS, OFFSETS)
def test_ranges_are_ascending_apart_and_begin_where_asked(steps, start):
    settled, model, floor = play(steps)
    ranges = list(settled.ranges(start))
    assert all(first < end for first, end in ranges)
    assert all(end < following for (_, end), (following, _) in itertools.pairwise(ranges))
    begin = max(start, cursor(model, floor))
    assert {offset for first, end in ranges for offset in range(first, end)} == {
        one for one in model if one >= begin
    }


@given(STEPS)
def test_it_survives_being_packed(steps):
    settled, _, _ = play(steps)
    again = SettledQueue(settled.cursor)
    again.unpack(settled.packed())
    assert list(again.ranges()) == list(settled.ranges())
    assert again.settle(settled.cursor) == settled.settle(settled.cursor)
    assert again.cursor == settled.cursor


def test_a_million_pending_items_settled_out_of_order_cost_little():
    settled = SettledQueue()
    for offset in range(1, 1_000_000, 2):
        settled.settle(offset)
    size = sum(sys.getsizeof(page) for page in settled._pages.values()) + sys.getsizeof(settled._pages)
    assert size < 500_000
    assert len(settled.packed()) == 245
    for offset in range(0, 1_000_000, 2):
        settled.settle(offset)
    assert settled.cursor == 1_000_000
    assert not settled._pages


def test_full_pages_pack_into_one_entry():
    settled = SettledQueue()
    for offset in range(PAGE_ITEMS, 5 * PAGE_ITEMS):
        settled.settle(offset)
    assert len(settled.packed()) == 1
    again = SettledQueue()
    again.unpack(settled.packed())
    assert list(again.ranges()) == [(PAGE_ITEMS, 5 * PAGE_ITEMS)]
