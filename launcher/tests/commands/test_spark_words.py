"""`report` and `export` install what they need, then exec their program."""

import sys
from typing import Any

import pytest

from gantry_launcher import install
from gantry_launcher.layout import PYTHON, ROOT
from gantry_launcher.main import COMMANDS, main
from gantry_launcher.usage import USAGE

from .becoming import Became, became

__all__ = ["became"]  # a fixture


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
    assert became[-1][1] == [str(PYTHON), "-m", "gantry_spark.reports", *place]


def test_help_installs_nothing(became: list[Any]) -> None:
    with pytest.raises(Became):
        main(["export", "--topic", "x", "--help"])
    ((program, words, _),) = became
    assert (program, words) == (sys.executable, [sys.executable, "-m", "gantry_spark.export", "--help"])


def test_the_usage_names_every_command_and_near_words_are_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert [word for word in COMMANDS if f"\n  {word} " not in USAGE] == []
    assert main(["exprot"]) == 2
    assert "did you mean export" in capsys.readouterr().err
