"""One real system for all tests of the client: give topics and groups names of your own, kill nothing."""

import sys
from pathlib import Path

import pytest

from gantry.testing import SystemOptions, gantry_broker

__all__ = ["gantry_broker"]

sys.path.append(str(Path(__file__).parent))  # what these tests share


@pytest.fixture(scope="session")
def anyio_backend():
    return ("asyncio", {"use_uvloop": True})


@pytest.fixture(scope="session")
def gantry_options() -> SystemOptions:
    """Two brokers; the fast refusal of what waited 200 ms would only tell how busy the machine is."""
    return SystemOptions(brokers=2, settings={"broker-store.send_wait_ms_max": "60000"})
