"""The byte budget is exact, never exceeds its limits, and closes the longest holders."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_chassis.metrics import Metrics
from gantry_chassis.peers.budget import MIB, Account, Budget, BudgetLimits, show_budget


class Connections:
    """Accounts that record which connections were cut, and why."""

    def __init__(self, bytes_max: int = 100, address_bytes_max: int = 60) -> None:
        self.budget = Budget(BudgetLimits(bytes_max, address_bytes_max, descriptors_max=10))
        self.cut: list[tuple[str, str]] = []

    def open(self, name: str, address: str = "a") -> Account:
        return self.budget.account(address, "half requests", lambda message: self.cut.append((name, message)))


def test_the_longest_holder_is_cut_when_an_address_is_over_its_limit() -> None:
    some = Connections()
    first, second, third = (some.open(name) for name in "123")
    first.hold(20)
    second.hold(20)
    first.hold(30)  # growth keeps the age: a trickle is not progress
    third.hold(20)
    assert [name for name, _ in some.cut] == ["1"]
    assert some.cut[0][1] == (
        "70 bytes are held for a, at most 60 may be: this connection has held its part longest, 30 bytes of half requests"
    )
    assert (first.held, some.budget.held) == (0, 40)
    first.hold(50)  # bytes already in flight
    assert some.budget.held == 40


def test_an_account_that_shrinks_makes_progress_and_starts_again() -> None:
    some = Connections()
    first, second, third = (some.open(name) for name in "123")
    first.hold(30)
    second.hold(20)
    first.hold(20)
    third.hold(30)
    assert [name for name, _ in some.cut] == ["2"]


def test_a_connection_over_the_limit_alone_is_cut_itself() -> None:
    some = Connections()
    some.open("1").hold(61)
    assert [name for name, _ in some.cut] == ["1"]
    assert some.budget.held == 0


def test_over_the_process_limit_the_largest_address_is_cut() -> None:
    some = Connections()
    few, most, new = some.open("few", "a"), some.open("most", "b"), some.open("new", "c")
    few.hold(10)
    most.hold(55)
    new.hold(50)
    assert [name for name, _ in some.cut] == ["most"]
    assert "for all clients, at most 100 may be" in some.cut[0][1]


def test_the_peak_is_the_most_held_since_it_was_taken() -> None:
    some = Connections()
    first = some.open("1")
    for size in (10, 50, 20):
        first.hold(size)
    assert [some.budget.take_peak(), some.budget.take_peak()] == [50, 20]
    first.close()
    assert [some.budget.take_peak(), some.budget.take_peak()] == [20, 0]


def test_abandoned_bytes_are_reported_by_size_and_completed_ones_are_not() -> None:
    sizes: list[int] = []
    budget = Budget(BudgetLimits(10 * MIB, 6 * MIB), abandoned=sizes.append)
    whole, left, cut = (budget.account("a", "x", lambda _words: None) for _ in range(3))
    whole.hold(3 * MIB)
    whole.hold(0)
    whole.close()
    left.hold(MIB - 1)
    left.close()
    left.close()
    assert sizes == []
    cut.hold(6 * MIB + 1)
    assert sizes == [7 * MIB]


STEPS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 70), st.booleans()), max_size=60)


@given(STEPS)
def test_the_ledger_is_exact_and_the_limits_hold_after_every_step(steps: list[tuple[int, int, bool]]) -> None:
    some = Connections()
    accounts = [some.open(str(number), "ab"[number % 2]) for number in range(6)]
    for number, size, closes in steps:
        account = accounts[number]
        if closes:
            account.close()
        else:
            account.hold(size)
        of_a, of_b = (sum(one.held for one in accounts[first::2]) for first in (0, 1))
        assert some.budget.held == of_a + of_b <= 100
        assert max(of_a, of_b) <= 60
        assert all(accounts[int(name)].is_closed for name, _ in some.cut)
    for account in accounts:
        account.close()
    assert some.budget.held == 0


@pytest.mark.parametrize(("number", "may"), [(9, True), (10, False)])
def test_descriptors_from_the_limit_on_are_for_files(number: int, may: bool) -> None:
    assert Connections().budget.has_descriptor(number) is may


def test_refusals_are_reported_and_counted_by_reason() -> None:
    refusals: list[tuple[str, str]] = []
    budget = Budget(on_refusal=lambda peer, message: refusals.append((peer, message)))
    metrics = Metrics()
    show_budget(metrics, "x", budget)
    budget.refused("late", "1.2.3.4:5", "its request did not come whole")
    assert refusals == [("1.2.3.4:5", "its request did not come whole")]
    values = {family.name: family for family in metrics.shown()}
    assert values["x_peers_refused"].samples == [(("late",), (1,))]
    assert values["x_peer_held_bytes"].samples == [((), (0,))]
