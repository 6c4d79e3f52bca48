"""The pytest plugin: the fixture `gantry_broker`, a real system for all tests of a run.

Load it with `-p gantrymq.testing`, with `pytest_plugins = ["gantrymq.testing"]` in the outermost conftest.py, or import the fixtures with
`from gantrymq.testing import gantry_broker, gantry_options` in any conftest.py (then without the options of the command line).
"""

from collections.abc import Generator
from typing import Any

import pytest

from gantrymq.systems.running import System, SystemOptions, system


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the command line."""
    group = parser.getgroup("gantry")
    group.addoption(
        "--gantry-brokers", type=int, default=1, help="brokers of the system of gantry_broker (default 1)"
    )
    group.addoption(
        "--gantry-flush",
        choices=("sync", "async"),
        default="sync",
        help="whether its brokers answer sends after fdatasync (sync, the default) or after the write (async)",
    )
    group.addoption(
        "--gantry-access",
        action="store_true",
        help="start the system of gantry_broker with access control; its access_key and secret_key may do everything",
    )


@pytest.fixture(scope="session")
def gantry_options(request: pytest.FixtureRequest) -> SystemOptions:
    """Return the options of gantry_broker's system. Override it in a conftest.py to change them."""
    brokers: Any = request.config.getoption("--gantry-brokers", default=1)
    flush: Any = request.config.getoption("--gantry-flush", default="sync")
    access: Any = request.config.getoption("--gantry-access", default=False)
    return SystemOptions(brokers=brokers, flush=flush, access=access)


@pytest.fixture(scope="session")
def gantry_broker(gantry_options: SystemOptions) -> Generator[System]:
    """Provide a running system with the addresses `http`, `nameserver` and `brokers`; one for all tests, stopped after the last."""
    with system(gantry_options) as running:
        yield running
