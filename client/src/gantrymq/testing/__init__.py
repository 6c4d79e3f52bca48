"""A real system for tests: `system(...)` for any program, the fixture `gantry_broker` for pytest (see `plugin`)."""

import contextlib

from gantrymq.systems.checkout import SystemFailed, launcher
from gantrymq.systems.running import BrokerPlace, System, SystemOptions, system

with contextlib.suppress(ModuleNotFoundError):  # `system` alone does not need pytest
    from gantrymq.testing.plugin import gantry_broker, gantry_options, pytest_addoption

__all__ = [
    "BrokerPlace",
    "System",
    "SystemFailed",
    "SystemOptions",
    "gantry_broker",
    "gantry_options",
    "launcher",
    "pytest_addoption",
    "system",
]
