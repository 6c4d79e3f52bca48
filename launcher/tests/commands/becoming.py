"""Records the program that a launcher command would exec, instead of starting it."""

import os
from pathlib import Path
from typing import Any

import pytest

from gantry_launcher import install


class Became(Exception):
    """Raised in place of exec."""


@pytest.fixture
def became(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The installs and the exec of the launcher, in order; at first only what the system needs is installed."""
    happened: list[Any] = []

    def become(program: Path, words: list[str], environment: dict[str, str]) -> None:
        happened.append((program, words, environment))
        raise Became

    monkeypatch.setattr(os, "execve", become)
    monkeypatch.setattr(install, "is_ready", lambda lock: lock == install.RUN_LOCK)
    monkeypatch.setattr(install, "ensure", lambda lock, _say: happened.append(lock))
    return happened
