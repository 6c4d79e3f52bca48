"""`load`: wrong words are refused before anything is installed, lists install nothing, and the program is its own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gantry_launcher import install, load
from gantry_launcher.completing import load_names
from gantry_launcher.layout import PYTHON, ROOT
from gantry_launcher.main import main


class Became(Exception):
    """Stands for the process that goes on as another program."""


@pytest.fixture
def became(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was installed, and what the launcher became; nothing of the load is installed yet."""
    happened: list[Any] = []

    def become(program: Path, words: list[str], environment: dict[str, str]) -> None:
        happened.append((program, words, environment))
        raise Became

    monkeypatch.setattr(load.os, "execve", become)
    monkeypatch.setattr(install, "is_ready", lambda lock: lock == install.RUN_LOCK)
    monkeypatch.setattr(install, "ensure", lambda lock, _say: happened.append(lock))
    return happened


def test_what_a_load_needs_is_installed_in_sight_and_the_program_begins(
    became: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Became):
        main(["load", "send", "--seconds", "5"])
    assert became[0] == install.LOAD_LOCK
    assert "load needs what requirements-load.lock names" in capsys.readouterr().err
    program, words, _ = became[1]
    assert (program, words) == (PYTHON, [str(PYTHON), "-m", "gantry_loadtest", "send", "--seconds", "5"])


@pytest.mark.parametrize("words", [["sned"], ["send", "--rate", "0"], ["send", "--hots", "x"]])
def test_a_wrong_word_is_refused_and_installs_nothing(became: list[Any], words: list[str]) -> None:
    assert main(["load", *words]) == 2
    assert became == []


@pytest.mark.parametrize("words", [["--list"], ["--list", "--json"], ["--help"]])
def test_what_only_tells_installs_nothing(became: list[Any], words: list[str]) -> None:
    with pytest.raises(Became):
        main(["load", *words])
    ((program, told, _),) = became
    assert (program, told) == (Path(sys.executable), [sys.executable, "-m", "gantry_loadtest", *words])


def test_the_list_is_an_array_of_names_and_the_shell_is_offered_the_same() -> None:
    command = [sys.executable, str(ROOT / "gantry"), "load", "--list", "--json"]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    names = json.loads(told)
    assert len(names) >= 8
    assert load_names() == names
