"""A World for each test, closed at its end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gantry_simulation.world.world import World


@pytest.fixture
def world() -> Iterator[World]:
    with World(1) as world:
        yield world
