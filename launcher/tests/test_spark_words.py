"""`report` and `export`: what they need is installed, then they are the program itself."""

import sys
from pathlib import Path
from typing import Any

import pytest

from gantry_launcher import install, spark
from gantry_launcher.layout import PYTHON, ROOT
from gantry_launcher.main import COMMANDS, main
from gantry_launcher.words import USAGE


class Became(Exception):
    """Stands for the process that goes on as another program."""


@pytest.fixture
def became(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was installed, and what the launcher became."""
    happened: list[Any] = []

    def become(program: Path, words: list[str], environment: dict[str, str]) -> None:
        happened.append((program, words, environment))
        raise Became

    monkeypatch.setattr(spark.os, "execve", become)
    monkeypatch.setattr(install, "is_ready", lambda lock: lock == install.RUN_LOCK)
    monkeypatch.setattr(install, "ensure", lambda lock, _say: happened.append(lock))
    return happened


def test_spark_is_installed_in_sight_and_the_program_begins(
    became: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Became):
        main(["export", "--topic", "orders"])
    assert became[0] == install.SPARK_LOCK
    assert capsys.readouterr().err.startswith("gantry: export needs what requirements-spark.lock names: ")
    program, words, _ = became[1]
    assert program == PYTHON
    data = ["--data", str(ROOT / "data")]
    assert words == [str(PYTHON), "-m", "gantry_spark.export", *data, "--topic", "orders"]


@pytest.mark.parametrize("place", [["--data", "x"], ["--store=a"], ["--snapshot", "x.json"]])
def test_logs_that_are_named_are_the_ones_that_are_meant(became: list[Any], place: list[str]) -> None:
    with pytest.raises(Became):
        main(["report", *place])
    assert became[-1][1] == [str(PYTHON), "-m", "gantry_spark.report", *place]


def test_help_installs_nothing(became: list[Any]) -> None:
    with pytest.raises(Became):
        main(["export", "--topic", "x", "--help"])
    ((program, words, _),) = became
    assert (program, words) == (sys.executable, [sys.executable, "-m", "gantry_spark.export", "--help"])


def test_the_usage_names_every_command_and_near_words_are_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert [word for word in COMMANDS if f"\n  {word} " not in USAGE] == []
    assert main(["exprot"]) == 2
    assert "did you mean export" in capsys.readouterr().err
