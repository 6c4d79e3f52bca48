"""Steps of a change: what they wait for, when they fail, and what is refused before the first."""

from pathlib import Path
from typing import Any

import pytest

from gantry_launcher.commands import running
from gantry_launcher.commands.restart import restart
from gantry_launcher.commands.running import Running, StepFailed
from gantry_launcher.errors import Refused
from gantry_launcher.main import main
from gantry_launcher.options import RestartOptions
from gantry_launcher.processes import control


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the launcher answers."""
    state: dict[str, Any] = {"ready": True, "brokers": [{"name": "broker-a"}], "processes": []}

    class Closed:
        def close(self) -> None:
            """Nothing is open."""

    def ask(_data: Path, _word: str) -> control.Answer:
        return control.Answer(state, Closed(), 1)  # type: ignore[arg-type]

    monkeypatch.setattr(control, "ask", ask)
    return state


def test_a_step_that_comes_no_nearer_fails_with_what_is_missing(tmp_path: Path) -> None:
    asked: list[int] = []

    def missing() -> tuple[str, object]:
        asked.append(1)
        return "b: it does not answer", None

    with pytest.raises(
        StepFailed, match=r"broker-a: nothing came nearer for 0\.1 s \(b: it does not answer\)"
    ):
        Running(tmp_path, 0.1, lambda _: None).wait("broker-a", missing)
    assert len(asked) > 1


@pytest.mark.parametrize("remedy", ["", "take it in, or away"])
def test_a_step_that_fails_says_what_helps(remedy: str, tmp_path: Path) -> None:
    one = Running(tmp_path, 0.05, lambda _: None)
    one.remedy = remedy or one.remedy
    with pytest.raises(StepFailed, match=f"when it is well again, {remedy or 'repeat the command'}$"):
        one.wait("broker-a", lambda: ("b: it does not answer", None))


def test_a_step_that_comes_nearer_has_all_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "LOOK_SECONDS", 0.02)
    left = [20]

    def missing() -> tuple[str, object]:
        left[0] -= 1
        return "copies" if left[0] else "", left[0]

    Running(tmp_path, 0.1, lambda _: None).wait("broker-a", missing)
    assert left == [0]


def test_without_replicas_a_rolling_restart_needs_all(tmp_path: Path, answered: dict[str, Any]) -> None:
    with pytest.raises(Refused, match="no broker has replicas: a restart interrupts its callers"):
        restart(RestartOptions(tmp_path, 1, is_all=False))


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["replicas", "add", "broker-a"], "broker-a has no replicas: a single store has no register"),
        (["replicas", "remove", "broker-z", "a"], "there is no broker broker-z; there are broker-a"),
        (["replicas", "grow"], "write replicas add BROKER, remove BROKER NAME or rebuild-register BROKER"),
        (["restart"], "write restart --rolling"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(
    words: list[str],
    complaint: str,
    tmp_path: Path,
    answered: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = ["--data", str(tmp_path)] if words[0] == "replicas" else []
    assert main([*words, *place]) == 2
    err = capsys.readouterr().err
    assert complaint in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ({"refused": "broker-a has 5 replicas"}, "broker-a has 5 replicas"),
        ({}, "of an earlier version"),
        ({"done": {}, "ready": False}, "the system is still starting"),
    ],
)
def test_an_order_that_was_not_carried_out_is_refused(
    answer: dict[str, Any], complaint: str, tmp_path: Path, answered: dict[str, Any]
) -> None:
    answered |= answer
    with pytest.raises(Refused, match=complaint):
        Running(tmp_path, 1, lambda _: None).order("replica-add", "broker-a", "0")


def test_without_a_launcher_nothing_is_changed(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="nothing runs with the data directory"):
        Running(tmp_path, 1, lambda _: None).state()
