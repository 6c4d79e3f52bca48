"""Loss, duplicates and order are judged correctly for any order of responses and arrivals."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_loadtest.judging.history import Arrival, History, Place

PLACE = Place(("t", "broker-a", 0))


def test_a_passed_acknowledged_message_is_lost_and_one_ahead_is_not_seen() -> None:
    history = History(["r"])
    for number in range(4):
        history.begin(1, number, 0.0)
        history.acknowledge(1, number, PLACE, number)
    history.arrive("r", 1, 0)
    history.arrive("r", 1, 2)
    lost, not_seen = history.judge(lambda _reader, sent: sent.offset < 3)
    assert [name for _, name, _ in lost] == [(1, 1)]
    assert not_seen == 1


def test_an_unacknowledged_message_may_arrive_but_need_not() -> None:
    history = History(["r"])
    history.begin(1, 0, 0.0)
    history.begin(1, 1, 0.0)
    assert history.arrive("r", 1, 0)[0] is Arrival.FIRST
    assert history.arrive("r", 1, 0)[0] is Arrival.AGAIN
    assert history.judge(lambda *_: True) == ([], 0)


def test_an_arrived_refused_message_and_one_never_sent_are_distinguished() -> None:
    history = History(["r"])
    history.begin(1, 0, 0.0)
    history.refuse(1, 0)
    assert history.arrive("r", 1, 0)[0] is Arrival.REFUSED
    assert history.arrive("r", 1, 7) == (Arrival.STRANGE, None)


def test_each_reader_must_get_the_message() -> None:
    history = History(["a", "b"])
    history.begin(1, 0, 0.0)
    history.acknowledge(1, 0, PLACE, 0)
    history.arrive("a", 1, 0)
    assert history.outstanding == 1
    assert [reader for reader, _, _ in history.judge(lambda *_: True)[0]] == ["b"]
    assert history.arrive("b", 1, 0)[0] is Arrival.FIRST
    assert (history.outstanding, history.open) == (0, 0)
    assert history.arrive("a", 1, 0)[0] is Arrival.AGAIN


def test_a_message_that_overtakes_is_out_of_order_in_its_own_stream_only() -> None:
    history = History(["r"])
    assert [history.is_in_order("r", 1, number) for number in (0, 2, 1, 3)] == [True, True, False, True]
    assert history.is_in_order("r", 2, 0)


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 3), st.integers(0, 3)), max_size=60),
    st.integers(0, 2**32),
)
def test_any_history_is_judged_as_by_a_simple_model(plan: list[tuple[bool, int, int]], seed: int) -> None:
    """Each message: acknowledged or in doubt, and how often readers a and b receive it, in any order."""
    history = History(["a", "b"])
    steps: list[tuple[str, int]] = []
    for number, (is_acknowledged, at_a, at_b) in enumerate(plan):
        history.begin(0, number, 0.0)
        steps += [("ack", number)] * is_acknowledged + [("a", number)] * at_a + [("b", number)] * at_b
    random.Random(seed).shuffle(steps)
    again = 0
    for what, number in steps:
        if what == "ack":
            history.acknowledge(0, number, PLACE, number)
        else:
            again += history.arrive(what, 0, number)[0] is Arrival.AGAIN
    lost, not_seen = history.judge(lambda *_: True)
    wanted: Any = [
        (reader, (0, number))
        for number, (is_acknowledged, at_a, at_b) in enumerate(plan)
        for reader, times in (("a", at_a), ("b", at_b))
        if is_acknowledged and not times
    ]
    assert sorted((reader, name) for reader, name, _ in lost) == sorted(wanted)
    assert not_seen == 0
    assert again == sum(max(0, times - 1) for _, at_a, at_b in plan for times in (at_a, at_b))
    assert history.outstanding == len({name for _, name in wanted})


def test_hours_of_messages_take_one_range() -> None:
    history = History(["r"])
    for number in range(10_000):
        history.begin(1, number, 0.0)
        history.acknowledge(1, number, PLACE, number)
        history.arrive("r", 1, number)
    assert history.open == 0
    assert history._settled[1].ranges == 1


@pytest.mark.parametrize("acknowledged_first", [True, False])
def test_an_arrival_before_the_answer_counts_too(acknowledged_first: bool) -> None:
    history = History(["r"])
    history.begin(1, 0, 0.0)
    if acknowledged_first:
        history.acknowledge(1, 0, PLACE, 0)
    history.arrive("r", 1, 0)
    history.acknowledge(1, 0, PLACE, 0)
    assert history.has_arrived("r", 1, 0)
    assert (history.open, history.outstanding) == (0, 0)
