"""The examples at the end of every --help are valid command lines."""

import re
import shlex
from typing import Any

import pytest
import typer.main

from gantrymq.cli.main import make_app


def commands(group: Any, *path: str) -> list[tuple[list[str], Any]]:
    """Every command with the words that name it."""
    inner = getattr(group, "commands", None)
    if inner is None:
        return [([*path], group)]
    return [one for name, each in inner.items() for one in commands(each, *path, name)]


def examples(command: Any) -> list[list[str]]:
    """Command lines of the epilog; what another program does before or after a pipe is left out."""
    lines = command.epilog.partition("Examples:\n")[2].splitlines()
    parts = [part.strip() for line in lines for part in re.split(r" [|>] ", line)]
    return [shlex.split(part) for part in parts if part.startswith("gantrymq ")]


@pytest.mark.parametrize(
    ("path", "command"),
    commands(typer.main.get_command(make_app()), "gantrymq"),
    ids=lambda one: str(one)[:40],
)
def test_an_example_is_accepted_as_written(
    path: list[str], command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GANTRY_HTTP", raising=False)
    lines = examples(command)
    assert lines
    for words in lines:
        assert words[: len(path)] == path
        command.make_context(path[-1], words[len(path) :])  # raises where an option or a value is refused
