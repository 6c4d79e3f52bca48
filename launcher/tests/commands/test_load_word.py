"""`load`: invalid arguments are refused before anything is installed, listings install nothing, and the load runs as its own program."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gantry_launcher import install
from gantry_launcher.commands.completing import load_names
from gantry_launcher.layout import PYTHON, ROOT
from gantry_launcher.main import main

from .becoming import Became, became

__all__ = ["became"]  # a fixture


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
    ((program, arguments, _),) = became
    assert (program, arguments) == (Path(sys.executable), [sys.executable, "-m", "gantry_loadtest", *words])


def test_the_list_is_an_array_of_names_and_the_shell_is_offered_the_same() -> None:
    command = [sys.executable, str(ROOT / "gantry"), "load", "--list", "--json"]
    arguments = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    names = json.loads(arguments)
    assert len(names) >= 8
    assert load_names() == names
