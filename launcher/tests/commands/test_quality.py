"""`test` passes its arguments to pytest and shares the tests between workers; a slow check runs beside the other steps."""

import os
from pathlib import Path

import pytest

from gantry_launcher.commands import quality
from gantry_launcher.commands.quality import Step, pytest_command
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


@pytest.fixture
def venv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A virtual environment with a shell and no other program."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/sh").symlink_to("/bin/sh")
    monkeypatch.setattr(quality, "VENV", tmp_path)
    return tmp_path


def test_a_step_beside_others_runs_while_they_run_and_shows_its_output_last(
    venv: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each step waits for the other one: in turns, neither would end."""
    meet = f"cd {venv}; echo {{0}} says; touch {{0}}; until [ -e {{1}} ]; do sleep 0.01; done; exit {{2}}"
    slow = Step("slow", ("sh", "-c", meet.format("slow", "quick", 3)), is_beside=True)
    quick = Step("quick", ("sh", "-c", meet.format("quick", "slow", 0)))
    monkeypatch.setattr(quality, "LOCKS", ())
    monkeypatch.setattr(quality, "CHECKS", (slow, quick))
    assert quality.check() == 1
    shown = capfd.readouterr().out
    assert (
        shown.index("quick says") < shown.index("== slow: ") < shown.index("slow says", shown.index("exit 3"))
    )
    assert [line.split()[:2] for line in shown.splitlines()[-2:]] == [["slow", "FAILED"], ["quick", "ok"]]


@pytest.mark.usefixtures("venv")
@pytest.mark.parametrize("is_beside", [True, False])
def test_every_step_runs_and_one_that_fails_fails_all(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *, is_beside: bool
) -> None:
    failing = Step("failing", ("sh", "-c", "echo the fault >&2; exit 7"), is_beside=is_beside)
    after = Step("after", ("sh", "-c", "exit 0"))
    monkeypatch.setattr(quality, "LOCKS", ())
    monkeypatch.setattr(quality, "CHECKS", (failing, after))
    assert quality.check() == 1
    shown = capfd.readouterr()
    assert "the fault" in (shown.out if is_beside else shown.err)
    assert "after          ok" in shown.out
    monkeypatch.setattr(quality, "CHECKS", (after,))
    assert quality.check() == 0
