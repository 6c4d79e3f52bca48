"""Command-line options of the long runs."""

from __future__ import annotations

import pytest


@pytest.fixture
def kill_cycles(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--kill-cycles"))


@pytest.fixture
def power_cuts(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--power-cuts"))
