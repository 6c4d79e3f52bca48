"""The file of filters: saved when it changed, and never after the end."""

import pytest

from broker_store.config.config_files import ConfigFile
from broker_store.log.files.simulated_files import SimulatedFiles
from broker_store.reading.filtered.filter_keeping import Filters
from broker_store.reading.read_settings import ReadSettings
from gantry_chassis.machine.environment import machine

pytestmark = pytest.mark.anyio


async def test_a_save_after_the_end_does_nothing():
    """The loop that saves ends later than the thread that writes."""
    files, thread = SimulatedFiles(), machine().workers(1, "groups")
    files.make_dirs("/store/config")
    filters = Filters(
        ConfigFile(files, "/store/config/consumerFilter.json"), ReadSettings(), lambda: 1, thread
    )
    filters.table.changes += 1
    await filters.stop()
    thread.close()
    written = len(files.trace)
    filters.table.changes += 1
    await filters.save()
    assert written > 1
    assert len(files.trace) == written
