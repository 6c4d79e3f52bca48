"""Options of the long runs. A run prints its seed; give it back with --seed to see the same kills."""

from __future__ import annotations

import random

import pytest


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    given = request.config.getoption("--seed")
    chosen = int(given) if given is not None else random.SystemRandom().randrange(1 << 31)
    print(f"seed {chosen}: repeat with --seed {chosen}")
    return chosen


@pytest.fixture
def kill_cycles(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--kill-cycles"))


@pytest.fixture
def power_cuts(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--power-cuts"))
