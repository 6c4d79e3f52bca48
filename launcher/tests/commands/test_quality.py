"""`test` passes its arguments to pytest and shares the tests between workers."""

import os

import pytest

from gantry_launcher.commands.quality import pytest_command
from gantry_launcher.commands.quality import test_environment as environment_of_tests
from gantry_launcher.errors import Refused
from gantry_launcher.layout import VENV

PYTEST = ("python", "-m", "pytest")
NO_SOAK = ("-m", "not soak")


@pytest.fixture(autouse=True)
def _one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)


@pytest.mark.parametrize("words", [[], ["--workers", "1"], ["--workers=1"]])
def test_one_worker_is_one_process_without_any_sharing(words: list[str]) -> None:
    assert pytest_command(words) == (*PYTEST, *NO_SOAK)


@pytest.mark.parametrize(("cores", "workers"), [(2, 3), (3, 4), (4, 4), (64, 4), (None, None)])
def test_there_is_one_worker_more_than_cores_and_at_most_four(
    monkeypatch: pytest.MonkeyPatch, cores: int | None, workers: int | None
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    parallel = () if workers is None else ("-n", str(workers))
    assert pytest_command([]) == (*PYTEST, *parallel, *NO_SOAK)


def test_a_debugger_has_the_terminal_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    assert pytest_command(["--pdb", "libs"]) == (*PYTEST, *NO_SOAK, "--pdb", "libs")
    assert pytest_command(["--pdb", "--workers", "2"]) == (*PYTEST, "-n", "2", *NO_SOAK, "--pdb")


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


def test_tests_compile_sources_once_whatever_the_environment_forbids() -> None:
    assert environment_of_tests({"HOME": "/h"}) == {"HOME": "/h"}
    assert environment_of_tests({"PYTHONDONTWRITEBYTECODE": ""}) == {}
    assert environment_of_tests({"HOME": "/h", "PYTHONDONTWRITEBYTECODE": "1"}) == {
        "HOME": "/h",
        "PYTHONPYCACHEPREFIX": str(VENV / "pycache"),
    }
