"""Lets these tests use the store's side of a send, which its own tests keep."""

import sys
from pathlib import Path

import pytest

BESIDE = Path(__file__).parent
STORE_TESTS = BESIDE.parents[1] / "services" / "broker-store" / "tests"
sys.path += [str(STORE_TESTS), str(BESIDE)]


@pytest.fixture(scope="session")
def anyio_backend():
    return "asyncio"
