"""The gate: confirmed is what both sets have durably, sets change within bounds, the lease needs every answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_store.replication.gate import Gate

LEASE = 1000
REPLICAS = ("a", "b", "c", "d")


def gate_of(*recorded: str, start: int = 100, min_in_sync: int = 1) -> Gate:
    return Gate("a", recorded, start, min_in_sync, LEASE, now=0)


def test_nothing_is_confirmed_until_every_member_has_the_start_of_the_epoch():
    gate = gate_of("a", "b")
    gate.durable("a", 150)
    assert gate.confirm is None
    gate.durable("b", 99)
    assert gate.confirm is None
    gate.durable("b", 120)
    assert gate.confirm == 120


def test_a_set_that_is_too_small_proves_the_start_of_the_epoch_and_confirms_no_more():
    """What a store appends by itself, and the decisions of services, must not be acknowledged thinner than sends."""
    gate = gate_of("a", min_in_sync=2)
    gate.durable("a", 100)
    assert gate.confirm == 100
    gate.durable("a", 150)
    gate.durable("b", 150)
    assert gate.confirm == 100
    gate.heard("b", 10)
    assert gate.next_set(20) == {"a", "b"}
    gate.propose(frozenset("ab"))
    assert gate.confirm == 100
    gate.record(("a", "b"))
    assert gate.confirm == 150


def test_a_proposed_member_counts_and_a_proposed_removal_does_not_yet():
    gate = gate_of("a", "b")
    for replica, end in (("a", 200), ("b", 150), ("c", 150)):
        gate.durable(replica, end)
    gate.propose(frozenset("ac"))
    gate.durable("b", 200)
    assert gate.confirm == 150
    gate.durable("c", 180)
    assert gate.confirm == 180
    gate.record(("a", "c"))
    gate.durable("c", 190)
    assert gate.confirm == 190


def test_a_new_session_of_a_member_begins_without_its_old_reports():
    gate = gate_of("a", "b")
    gate.durable("a", 100)
    gate.durable("b", 150)
    assert gate.confirm == 100
    gate.joined("b")
    gate.durable("a", 150)
    assert gate.confirm == 100
    gate.durable("b", 140)
    assert gate.confirm == 140


def test_a_silent_member_is_removed_after_the_lease_but_not_below_min_in_sync():
    gate = gate_of("a", "b", "c", min_in_sync=2)
    gate.heard("b", 0)
    assert gate.next_set(1000) is None
    gate.heard("c", 500)
    assert gate.next_set(1001) == frozenset("ac")
    assert gate.next_set(1501) is None


def test_a_learner_is_added_with_confirm_and_start_within_the_lease():
    gate = gate_of("a")
    gate.durable("a", 150)
    gate.durable("b", 149)
    gate.heard("b", 10)
    assert gate.next_set(20) is None
    gate.durable("b", 150)
    assert gate.next_set(1010) is None
    assert gate.next_set(1009) == frozenset("ab")


def test_the_confirm_offset_waits_for_a_learner_that_is_near():
    gate = gate_of("a")
    gate.durable("a", 150)
    gate.durable("b", 120)
    gate.durable("a", 200)
    gate.durable("b", 160)
    gate.heard("b", 10)
    assert gate.next_set(20) is None
    gate.durable("a", 300)
    assert gate.confirm == 200
    gate.durable("b", 220)
    assert gate.confirm == 220
    assert gate.next_set(30) == frozenset("ab")


def test_a_near_learner_that_falls_silent_holds_nothing_up():
    gate = gate_of("a")
    for replica, end in (("a", 150), ("b", 120), ("a", 200), ("b", 160)):
        gate.durable(replica, end)
    gate.heard("b", 10)
    assert gate.next_set(20) is None
    gate.durable("a", 300)
    assert gate.next_set(1011) is None
    assert gate.confirm == 300


@pytest.mark.parametrize(("recorded", "accepts"), [(("a",), False), (("a", "b"), True)])
def test_sends_are_refused_below_min_in_sync(recorded, accepts):
    assert gate_of(*recorded, min_in_sync=2).accepts_sends is accepts


def test_the_lease_needs_every_member_of_both_sets():
    gate = gate_of("a", "b")
    assert not gate.has_lease(5)
    gate.heard("b", 5)
    assert gate.has_lease(1004)
    assert not gate.has_lease(1005)
    gate.heard("b", 1000)
    gate.durable("a", 100)
    gate.durable("b", 100)
    gate.propose(frozenset("abc"))
    assert not gate.has_lease(1001)


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("durable"), st.sampled_from(REPLICAS), st.integers(0, 300)),
        st.tuples(st.just("joined"), st.sampled_from(REPLICAS), st.just(0)),
        st.tuples(st.just("heard"), st.sampled_from(REPLICAS[1:]), st.integers(0, 300)),
        st.tuples(st.just("change"), st.just(""), st.integers(0, 3000)),
        st.tuples(st.just("recorded"), st.just(""), st.just(0)),
    ),
    max_size=60,
)


@given(OPERATIONS, st.sets(st.sampled_from(REPLICAS[1:])), st.integers(1, 3))
def test_whatever_happens_confirmed_is_durable_at_both_sets_and_never_goes_down(
    operations, others, min_in_sync
):
    """Durable is the best of what a replica ever reported: a disk does not forget."""
    gate = Gate("a", ("a", *sorted(others)), 100, min_in_sync, LEASE, 0)
    best: dict[str, int] = dict.fromkeys(REPLICAS, -1)
    now, confirmed = 0, 0
    for kind, replica, number in operations:
        if kind == "durable":
            best[replica] = max(best[replica], number)
            gate.durable(replica, number)
        elif kind == "joined":
            gate.joined(replica)
        elif kind == "heard":
            gate.heard(replica, max(0, now - number))
        elif kind == "recorded" and gate.proposed is not None:
            gate.record(tuple(gate.proposed))
        elif kind == "change" and gate.proposed is None:
            now += number
            size = len(gate.recorded)
            wanted = gate.next_set(now)
            if wanted is not None:
                assert "a" in wanted
                assert len(wanted) >= min(min_in_sync, size + 1)
                assert all(best[added] >= max(100, gate.confirm or 0) for added in wanted - gate.recorded)
                gate.propose(wanted)
        confirm = gate.confirm
        assert confirm is None or confirm >= max(100, confirmed)
        confirmed = confirm or 0
        assert confirm is None or all(best[member] >= confirm for member in gate.counted)
