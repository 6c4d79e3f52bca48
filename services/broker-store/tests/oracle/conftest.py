"""Makes the parts of the oracle importable by name, and reads the options of its long run."""

import random
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))


@pytest.fixture
def first_seed(request: pytest.FixtureRequest) -> int:
    given = request.config.getoption("--seed")
    return int(given) if given is not None else random.SystemRandom().randrange(1 << 31)


@pytest.fixture
def lives(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--lives"))
