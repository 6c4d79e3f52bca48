"""Stretches of offsets against a plain set, and the cost of an acknowledgement in a queue with many gaps."""

import random
import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_store.leases.lease_table.stretches import Stretches
from broker_store.leases.lease_table.unseen import Unseen
from broker_store.leases.note_bodies import LeaseNote, QueueNote
from broker_store.leases.subscriptions import Subscriptions

bounds = st.tuples(st.integers(0, 40), st.integers(0, 40)).map(sorted)
pieces = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 6)), max_size=10)
"""Distance of a stretch from the previous one, and its length."""
change = st.one_of(
    st.tuples(st.just("cut"), bounds),
    st.tuples(st.just("skip"), bounds),
    st.tuples(st.just("end"), bounds),
    st.tuples(st.just("saw"), bounds),
    st.tuples(st.just("note"), bounds),
)


def made(parts):
    stretches, at = Stretches(), 0
    for space, length in parts:
        stretches.append(at + space, at + space + length)
        at += space + length
    return stretches


def offsets(stretches):
    return {offset for start, end in stretches for offset in range(start, end)}


@given(pieces, st.lists(bounds, max_size=8))
def test_cutting_leaves_what_a_set_of_offsets_leaves(parts, cuts):
    stretches = made(parts)
    model = offsets(stretches)
    for start, end in cuts:
        stretches.cut(start, end)
        model -= set(range(start, end))
        rows = list(stretches)
        assert offsets(rows) == model
        assert all(first < last for first, last in rows)
        assert all(one[1] <= other[0] for one, other in pairwise(rows)), "in order"
        assert {at for at in range(80) if stretches.has(at)} == {at for at in model if at < 80}
        assert stretches.count(start, end + 7) == len(model & set(range(start, end + 7)))
        assert bool(stretches) == bool(model)
        if model:
            assert stretches.first == rows[0]


@given(st.integers(0, 9), st.lists(change, max_size=14))
def test_unread_offsets_equal_a_plain_set(start, changes):
    unseen, end = Unseen(start), 60
    model, next_offset, attempts = set(range(start, end)), start, {}
    for what, (low, high) in changes:
        if what == "cut":
            unseen.cut(low, high)
            model -= set(range(low, high))
            next_offset = max(next_offset, high)
        elif what == "skip":
            unseen.skip_to(low)
            model -= set(range(low))
            next_offset = max(next_offset, low)
            attempts = {at: times for at, times in attempts.items() if at >= low}
        elif what == "end" and low < next_offset:
            unseen.end_at(low)
            model |= set(range(low, end))
            next_offset = low
            attempts = {at: times for at, times in attempts.items() if at < low}
        elif what == "saw":
            first, last = unseen.first
            until = min(first + high - low, end if last is None else last)
            unseen.saw(first, until)
            unseen.forget_attempts(first, until)
            model -= set(range(first, until))
            next_offset = max(next_offset, until)
            attempts = {at: times for at, times in attempts.items() if not first <= at < until}
        elif what == "note":
            unseen.note_attempts(low, high - low, high)
            noted = {at: max(high, attempts.get(at, 0)) for at in range(low, high) if at in model}
            attempts |= noted
        assert {at for at in range(end) if unseen.has(at)} == model
        assert (unseen.next, unseen.attempts) == (next_offset, attempts)
        assert unseen.low == min(model, default=next_offset)


def lines_of(work):
    """Return how many lines of Python run: the work, not its duration."""
    count = 0

    def trace(_frame, event, _argument):
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def replayed(gaps):
    """Return a queue with this many gaps, as after a snapshot. Every message was delivered before."""
    table_of = Subscriptions()
    table_of.apply(LeaseNote("g", "t", [QueueNote(0, 0)]), 0)
    table = table_of.find("g", "t").queues[0].table
    table.see_all(0, 2 * gaps)
    table.take(2 * gaps, 1, 10**12)
    for offset in range(0, 2 * gaps, 2):
        table.settle(offset, 1)
    state = Subscriptions()
    assert state.load(b"".join(table_of.slices(0)), 0)
    assert len(state.find("g", "t").queues[0].table.unseen.gaps) == gaps
    return state


@pytest.mark.parametrize("asked", ["replay", "again"])
def test_an_acknowledgement_touches_no_more_where_there_are_many_gaps(asked):
    acks = 50
    counts = []
    for gaps in (200, 6000):
        state = replayed(gaps)
        table = state.find("g", "t").queues[0].table
        chosen = random.Random(1).sample(range(1, 2 * gaps, 2), acks)
        if asked == "replay":

            def work(state=state, chosen=chosen):
                for number, offset in enumerate(chosen):
                    state.apply(LeaseNote("g", "t", [QueueNote(0, None, [offset, 1])]), 1000 + number)

        else:

            def work(table=table, chosen=chosen):
                for offset in chosen:
                    table.adopt(offset, 7, 10**12)
                    table.settle(offset, 1)
                    assert not table.unseen.has(offset)

        counts.append(lines_of(work))
        assert not any(table.unseen.has(offset) for offset in chosen)
    assert counts[1] <= counts[0] * 1.2 + 50, counts
