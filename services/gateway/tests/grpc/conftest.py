"""Loads the modules that the tests of this folder share."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        f"gateway_grpc_{name}", Path(__file__).with_name(f"{name}.py")
    )
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_consumers = _load("consumers")
_load("producers")


@pytest.fixture
async def consumers(system):
    """The parts for consumers over one broker with the topic `orders`."""
    made = _consumers.Consumers(system)
    yield made
    made.renewals.close()
