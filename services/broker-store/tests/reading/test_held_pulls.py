"""Held pulls: what wakes which of them, which stay held, and that none is lost."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from broker_store.reading.held_pulls import TICK_MS, HeldPull, HeldPulls
from gantry_wire.messages.properties import tags_code
from gantry_wire.subscription import EVERYTHING, TagFilter

RED, BLUE = tags_code("red"), tags_code("blue")
WANTS_RED = TagFilter.parse("red")


def held(key=("t", 0), offset=0, wanted=EVERYTHING, deadline_ms=1000, peer_id=1, request="r", wait_id=None):
    return HeldPull(key, offset, wanted, deadline_ms, peer_id, request, wait_id)


def test_an_arrival_wakes_the_pulls_of_its_queue_and_no_other():
    held_pulls = HeldPulls()
    here, there = held(("t", 0)), held(("t", 1))
    held_pulls.hold(here)
    held_pulls.hold(there)
    assert held_pulls.wake(("t", 0), 0, [RED]) == [here]
    assert held_pulls.count == 1
    assert held_pulls.wake(("t", 0), 1, [RED]) == []


def test_a_pull_that_does_not_want_the_tag_stays_and_moves_on():
    held_pulls = HeldPulls()
    picky = held(wanted=WANTS_RED)
    held_pulls.hold(picky)
    assert held_pulls.wake(("t", 0), 0, [BLUE, BLUE]) == []
    assert picky.offset == 2
    assert held_pulls.wake(("t", 0), 2, [BLUE, RED]) == [picky]
    assert picky.offset == 2


def test_a_code_beyond_32_bits_is_compared_by_its_low_half():
    held_pulls = HeldPulls()
    picky = held(wanted=WANTS_RED)
    held_pulls.hold(picky)
    assert held_pulls.wake(("t", 0), 0, [(1 << 40) + RED]) == [picky]


def test_messages_below_a_pulls_offset_do_not_wake_it():
    held_pulls = HeldPulls()
    ahead = held(offset=5)
    held_pulls.hold(ahead)
    assert held_pulls.wake(("t", 0), 3, [RED, RED]) == []
    assert held_pulls.wake(("t", 0), 5, [RED]) == [ahead]


def test_only_codes_from_the_pulls_own_offset_on_count():
    held_pulls = HeldPulls()
    picky = held(offset=1, wanted=WANTS_RED)
    held_pulls.hold(picky)
    assert held_pulls.wake(("t", 0), 0, [RED, BLUE]) == []
    assert picky.offset == 2


def test_a_deadline_is_never_early_and_at_most_one_step_late():
    held_pulls = HeldPulls()
    waiting = held(deadline_ms=1001)
    held_pulls.hold(waiting)
    assert held_pulls.expire(1000) == []
    due = held_pulls.next_expiry_ms()
    assert due is not None
    assert 1001 <= due < 1001 + TICK_MS
    assert held_pulls.expire(due) == [waiting]
    assert held_pulls.next_expiry_ms() is None


def test_a_closed_connection_takes_its_pulls_with_it():
    held_pulls = HeldPulls()
    gone, stays = held(peer_id=1), held(peer_id=2)
    held_pulls.hold(gone)
    held_pulls.hold(stays)
    assert held_pulls.close_peer(1) == 1
    assert held_pulls.close_peer(1) == 0
    assert held_pulls.take_all() == [stays]


def test_a_deleted_topic_gives_back_the_pulls_of_all_its_queues():
    held_pulls = HeldPulls()
    first, second, other = held(("t", 0)), held(("t", 1)), held(("u", 0))
    for each in (first, second, other):
        held_pulls.hold(each)
    assert held_pulls.take_topic("t") == [first, second]
    assert held_pulls.count == 1


@pytest.mark.parametrize("wanted", [EVERYTHING, WANTS_RED])
def test_a_gap_before_the_arrival_wakes_because_its_content_is_unknown(wanted):
    held_pulls = HeldPulls()
    behind = held(offset=0, wanted=wanted)
    held_pulls.hold(behind)
    assert held_pulls.wake(("t", 0), 3, [BLUE]) == [behind]


class HeldPullsModel(RuleBasedStateMachine):
    """Against a plain list: whatever happens, in whatever order, the same pulls are returned, each exactly once."""

    def __init__(self):
        super().__init__()
        self.held_pulls = HeldPulls()
        self.waiting = []
        self.numbered = {}
        self.ends = {}
        self.now_ms = 0

    def gone(self, pulls):
        assert len(set(map(id, pulls))) == len(pulls)
        for pull in pulls:
            self.waiting.remove(pull)

    @rule(
        queue=st.integers(0, 2),
        peer=st.integers(1, 3),
        wait=st.integers(1, 500),
        picky=st.booleans(),
        number=st.sampled_from([None, 1, 2]),
    )
    def hold(self, queue, peer, wait, picky, number):
        key = ("t", queue)
        wanted = WANTS_RED if picky else EVERYTHING
        pull = held(key, self.ends.get(key, 0), wanted, self.now_ms + wait, peer, wait_id=number)
        self.held_pulls.hold(pull)
        self.waiting.append(pull)
        self.numbered[peer, number] = pull

    @rule(queue=st.integers(0, 2), codes=st.lists(st.sampled_from([RED, BLUE, 0]), min_size=1, max_size=4))
    def arrive(self, queue, codes):
        key = ("t", queue)
        first = self.ends.get(key, 0)
        self.ends[key] = first + len(codes)
        expected = [p for p in self.waiting if p.key == key and (p.wanted is EVERYTHING or RED in codes)]
        woken = self.held_pulls.wake(key, first, codes)
        assert woken == expected
        self.gone(woken)

    @rule(step=st.integers(0, 300))
    def pass_time(self, step):
        self.now_ms += step
        expired = self.held_pulls.expire(self.now_ms)
        assert all(pull.deadline_ms <= self.now_ms for pull in expired)
        self.gone(expired)
        assert all(pull.deadline_ms > self.now_ms - TICK_MS for pull in self.waiting)

    @rule(peer=st.integers(1, 3))
    def close(self, peer):
        expected = [pull for pull in self.waiting if pull.peer_id == peer]
        assert self.held_pulls.close_peer(peer) == len(expected)
        self.gone(expected)

    @rule(peer=st.integers(1, 4), number=st.integers(1, 3))
    def end(self, peer, number):
        """End the newest pull of a number, where a client used one twice."""
        pull = self.numbered.get((peer, number))
        expected = [one for one in self.waiting if one is pull]
        assert self.held_pulls.end(peer, number) is bool(expected)
        self.gone(expected)

    @invariant()
    def the_count_is_true_and_offsets_stand_at_the_end(self):
        assert self.held_pulls.count == len(self.waiting)
        assert all(pull.offset == self.ends.get(pull.key, 0) for pull in self.waiting)


TestHeldPullsModel = HeldPullsModel.TestCase
TestHeldPullsModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
