"""Loads the module that the tests of this folder share."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location(
    "gateway_grpc_consumers", Path(__file__).with_name("consumers.py")
)
assert _spec is not None
assert _spec.loader is not None
_consumers = sys.modules[_spec.name] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_consumers)


@pytest.fixture
async def consumers(system):
    """The parts for consumers over one broker with the topic `orders`."""
    made = _consumers.Consumers(system)
    yield made
    made.renewals.close()
