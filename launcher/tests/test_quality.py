"""`test` hands its words to pytest, and shares the tests between workers."""

import pytest

from gantry_launcher.errors import Refused
from gantry_launcher.quality import pytest_command

PYTEST = ("python", "-m", "pytest")
NO_SOAK = ("-m", "not soak")


@pytest.mark.parametrize("words", [[], ["--workers", "1"], ["--workers=1"]])
def test_one_worker_is_one_process_without_any_sharing(words: list[str]) -> None:
    assert pytest_command(words) == (*PYTEST, *NO_SOAK)


def test_the_number_of_workers_may_stand_anywhere_and_the_rest_is_handed_on_in_order() -> None:
    words = ["libs/wire", "-k", "frame or command", "--workers", "3", "-x", "--seed=7", "client"]
    rest = ("libs/wire", "-k", "frame or command", "-x", "--seed=7", "client")
    assert pytest_command(words) == (*PYTEST, "-n", "3", *NO_SOAK, *rest)


def test_markers_that_are_chosen_take_the_place_of_ours() -> None:
    assert pytest_command(["-m", "soak", "--lives", "5"]) == (*PYTEST, "-m", "soak", "--lives", "5")
    assert pytest_command(["-msoak", "--workers=2"]) == (*PYTEST, "-n", "2", "-msoak")


@pytest.mark.parametrize("number", ["0", "-1", "65", "two", ""])
def test_a_senseless_number_of_workers_is_refused_with_its_bounds(number: str) -> None:
    with pytest.raises(Refused, match="is not a number from 1 to 64"):
        pytest_command([f"--workers={number}"])


def test_workers_without_a_number_are_refused() -> None:
    with pytest.raises(Refused, match="--workers: expected one argument"):
        pytest_command(["--workers"])
