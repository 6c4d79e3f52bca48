"""Records the program that a launcher command would exec, instead of starting it."""

import os
from pathlib import Path
from typing import Any

import pytest

from gantry_launcher import install


class Became(Exception):
    """Stands for the process that continues as another program."""


@pytest.fixture
def became(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was installed, and what the launcher became, in their order; nothing but what runs the system is installed yet."""
    happened: list[Any] = []

    def become(program: Path, words: list[str], environment: dict[str, str]) -> None:
        happened.append((program, words, environment))
        raise Became

    monkeypatch.setattr(os, "execve", become)
    monkeypatch.setattr(install, "is_ready", lambda lock: lock == install.RUN_LOCK)
    monkeypatch.setattr(install, "ensure", lambda lock, _say: happened.append(lock))
    return happened
