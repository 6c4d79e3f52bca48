"""Client commands are passed unchanged, with the address of the running system."""

import socket
from pathlib import Path
from typing import Any

import pytest

from gantry_launcher import install
from gantry_launcher.commands import client
from gantry_launcher.layout import PYTHON
from gantry_launcher.main import main
from gantry_launcher.processes import control
from gantry_launcher.usage import CLIENT_COMMANDS, USAGE


class Handed(Exception):
    """Raised in place of exec."""


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the launcher passes to exec: program, arguments, environment."""
    became: list[Any] = []

    def become(program: Path, words: list[str], environment: dict[str, str]) -> None:
        became.extend((program, words, environment))
        raise Handed

    monkeypatch.setattr(client.os, "execve", become)
    monkeypatch.setattr(install, "ensure", lambda *_: None)
    monkeypatch.setattr(control, "ask", lambda *_: None)
    monkeypatch.delenv("GANTRY_HTTP", raising=False)
    return became


def test_arguments_are_passed_on_unchanged(handed: list[Any]) -> None:
    with pytest.raises(Handed):
        main(["send", "orders", "--help"])
    assert handed[:2] == [PYTHON, [str(PYTHON), "-m", "gantrymq.cli", "send", "orders", "--help"]]
    assert "GANTRY_HTTP" not in handed[2]


def test_the_local_system_is_used(handed: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        control, "ask", lambda *_: control.Answer({"http": "http://127.0.0.1:1234"}, socket.socket(), 1)
    )
    with pytest.raises(Handed):
        main(["lag"])
    assert handed[2]["GANTRY_HTTP"] == "http://127.0.0.1:1234"
    handed.clear()
    monkeypatch.setenv("GANTRY_HTTP", "http://elsewhere:8080")
    with pytest.raises(Handed):
        main(["lag"])
    assert handed[2]["GANTRY_HTTP"] == "http://elsewhere:8080"


def test_another_data_directory_is_left_to_the_client(
    handed: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        control, "ask", lambda *_: control.Answer({"http": "http://127.0.0.1:1234"}, socket.socket(), 1)
    )
    for words in (["lag", "--data", "x"], ["lag", "--data=x"]):
        with pytest.raises(Handed):
            main(words)
        assert handed[1][-len(words) :] == words
        assert "GANTRY_HTTP" not in handed[2]
        handed.clear()
    monkeypatch.setenv("GANTRY_HTTP", "")
    with pytest.raises(Handed):
        main(["send", "orders", "--", "--data"])
    assert handed[2]["GANTRY_HTTP"] == "http://127.0.0.1:1234"


def test_a_shell_that_completes_a_word_of_the_client_is_answered_by_it(
    handed: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_GANTRY_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "./gantry\ntopic\nsh")
    monkeypatch.setenv("COMP_CWORD", "2")
    monkeypatch.setattr(install, "is_ready", lambda *_: True)
    with pytest.raises(Handed):
        main([])
    assert handed[1] == [str(PYTHON), "-m", "gantrymq.cli"]


def test_unknown_commands_are_refused_in_one_line(
    handed: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sned"]) == 2
    words = "gantry: no such command: sned; did you mean send? (see ./gantry --help)\n"
    assert capsys.readouterr().err == words
    assert main(["--data", "x", "lag"]) == 2
    assert "the word comes first, its options after it" in capsys.readouterr().err
    assert not handed


def test_the_usage_names_every_command() -> None:
    assert [word for word in CLIENT_COMMANDS if word not in USAGE] == []
