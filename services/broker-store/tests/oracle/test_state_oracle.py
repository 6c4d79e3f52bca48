"""A store opened from its checkpoint and the tail of its log equals its log, whatever its life was and however it ended."""

import pytest
from crash_checks import Tally
from stepped import run_stepped
from store_life import StoreLife

# A crash cuts off coroutines before they are awaited.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
LIVES_PER_TEST = 25
TESTS = 8


def live(seed: int, tally: Tally) -> None:
    try:
        run_stepped(lambda threads: StoreLife(seed, threads, tally).live(), has_journal=seed % 2 == 1)
    except BaseException:
        print(f"to live it again: ./gantry test {__file__} -m soak --lives 1 --seed {seed}")  # noqa: T201
        raise


@pytest.mark.parametrize("number", range(TESTS))
def test_lives_leave_no_disk_whose_derived_state_differs_from_its_log(number, seed):
    """Each run has other lives. The soak form runs thousands."""
    tally, first = Tally(), seed + number * LIVES_PER_TEST
    for one in range(first, first + LIVES_PER_TEST):
        live(one, tally)
    assert tally.states >= 3 * tally.lives


def test_a_life_that_left_removed_messages_in_a_queue_after_a_crash():
    """Units that came back from the unit journal pointed below the log's beginning: the next start rebuilt everything."""
    live(540704397, Tally())


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_many_lives_leave_no_disk_whose_derived_state_differs_from_its_log(lives, seed):
    tally = Tally()
    for one in range(seed, seed + lives):
        live(one, tally)
    print(f"from seed {seed}: {tally}, 0 differences")  # noqa: T201
