"""Options of the long runs, known wherever pytest is started from."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gantry", "long runs (with -m soak)")
    group.addoption("--kill-cycles", default="1000", help="how often the store is killed")
    group.addoption("--power-cuts", default="20", help="how often the power is cut (root, a loop device)")
    group.addoption("--seed", default=None, help="repeat the run of this seed")
