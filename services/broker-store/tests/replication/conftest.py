"""Makes the simulated group importable by name, and reads the options of its long run."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))


@pytest.fixture
def lives(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--lives"))
