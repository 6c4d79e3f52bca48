"""Simulated groups keep every promise of replication, and each planted violation of a rule is found."""

import pytest
from mutants import FOUND_BY_A_LIFE, MUTANTS, planted
from simulate import SIZES, Tally, run, search

LIVES = 90
LIVES_PER_TEST = 10
SEARCHED_MAX = 3000
"""Lives within which a search finds each mutant."""


def life(seed: int, tally: Tally) -> str | None:
    return run(seed, SIZES[seed % len(SIZES)], tally)


@pytest.mark.parametrize("first", range(0, LIVES, LIVES_PER_TEST))
def test_groups_lose_nothing_and_acknowledge_again_after_the_last_fault(first: int):
    tally = Tally()
    assert search(range(first, first + LIVES_PER_TEST), tally) is None
    assert tally.takeovers > 2 * LIVES_PER_TEST
    assert tally.acknowledged > 0
    assert tally.granted > 0


@pytest.mark.parametrize("name", FOUND_BY_A_LIFE)
def test_a_planted_violation_is_found_and_the_rules_survive_the_same_life(name: str):
    """The search that found the seed runs with `-m soak`."""
    seed = FOUND_BY_A_LIFE[name]
    with planted(name):
        assert life(seed, Tally()) is not None
    assert life(seed, Tally()) is None


def test_every_rule_that_forbids_has_a_mutant():
    """Rules 9 and 12 forbid nothing: they only delay. The bound of the liveness check covers them."""
    assert {mutant.rule for mutant in MUTANTS.values()} == {*range(1, 9), 10, 11, 13}


def test_a_seed_repeats_its_life():
    one, again = Tally(), Tally()
    assert life(7, one) is life(7, again) is None
    assert one == again


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_many_groups_lose_nothing(lives: int, seed: int):
    tally = Tally()
    found = search(range(seed, seed + lives), tally)
    print(tally)  # noqa: T201 - the count line of a long run is its result
    assert found is None


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", FOUND_BY_A_LIFE)
def test_a_search_finds_each_planted_violation(name: str):
    with planted(name):
        assert search(range(SEARCHED_MAX), Tally()) is not None
