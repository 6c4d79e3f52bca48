"""`./gantry access init` and `off`: what they print, for people and for programs."""

import json
from pathlib import Path
from typing import Any

import pytest

from gantry_launcher.layout import DataDir
from gantry_launcher.main import main


@pytest.fixture
def data(tmp_path: Path) -> DataDir:
    return DataDir(tmp_path / "data")


def made(data: DataDir, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["access", "init", "--data", str(data.path), "--json", *words]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_init_shows_the_secret_once_and_what_to_type_next(
    data: DataDir, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["access", "init", "--data", str(data.path), "--user", "alice"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    secret = json.loads((data.path.with_name("data-keys") / "initial_user.json").read_text())["password"]
    assert "user      alice" in shown
    assert shown.count(secret) == 1
    assert f"next: ./gantry up --data {data.path}" in shown
    assert main(words) == 0
    again = capsys.readouterr().out
    assert "is on already" in again
    assert "nothing was changed" in again
    assert secret not in again


def test_programs_get_one_line_of_json(data: DataDir, capsys: pytest.CaptureFixture[str]) -> None:
    first = made(data, capsys)
    assert first["created"] is True
    assert first["user"] == "admin"
    assert Path(first["keyFile"]).is_file()
    assert made(data, capsys) == {"accessControl": "on", "created": False, "keyFile": first["keyFile"]}
    assert made(data, capsys, "--rotate-key")["keys"] == 2


def test_off_and_on_again(data: DataDir, capsys: pytest.CaptureFixture[str]) -> None:
    made(data, capsys)
    off = ["access", "off", "--data", str(data.path)]
    assert main(off) == 0
    assert "./gantry access init switches it on again" in capsys.readouterr().out
    assert main(off) == 0
    assert "is off already" in capsys.readouterr().out
    assert main([*off, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"accessControl": "off", "changed": False}
    assert made(data, capsys)["created"] is False


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--rotate-key"], "there is no key to rotate"),
        (["--user", "a:b"], "a user name has 1 to 255 letters, digits"),
        (["--user", ""], "a user name has 1 to 255 letters, digits"),
        (["--secret", "s"], "unrecognized arguments"),
    ],
)
def test_wrong_words_are_refused_in_one_line_and_make_nothing(
    data: DataDir, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    assert main(["access", "init", "--data", str(data.path), *words]) == 2
    refused = capsys.readouterr().err
    assert says in refused
    assert refused.count("\n") == 1
    assert [*data.path.parent.iterdir()] == []


def test_other_keys_than_those_in_use_are_refused(
    data: DataDir, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    made(data, capsys)
    assert main(["access", "init", "--data", str(data.path), "--keys", str(tmp_path / "other")]) == 2
    assert "is on already, with the keys in" in capsys.readouterr().err
