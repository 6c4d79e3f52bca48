"""A World for each test, closed at its end. Helpers of tests are importable by name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gantry_simulation.world.world import World

sys.path.append(str(Path(__file__).parent))


@pytest.fixture
def world() -> Iterator[World]:
    with World(1) as world:
        yield world
