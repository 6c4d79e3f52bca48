"""A reader that meets a damaged record reads again once another replica's record has replaced it."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from broker_store.log.errors import DamagedRecord
from broker_store.process.foundation import ReadingBase
from gantry_chassis.machine.environment import machine

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


class Log:
    """A log with a damaged record at position 40."""

    def __init__(self):
        self.is_whole, self.reads, self.asked = False, 0, []

    def read(self, position):
        self.reads += 1
        if not self.is_whole:
            raise DamagedRecord(position, "its body fails the CRC")
        return b"whole"


def base(repaired):
    nothing = SimpleNamespace()
    workers = machine().workers(1, "reader")
    made = ReadingBase(nothing, nothing, None, workers, nothing, nothing, workers, None)
    return replace(made, repaired=repaired)


@pytest.mark.parametrize("somebody_has_it", [True, False])
async def test_a_damaged_record_is_read_again_where_another_replica_had_it(somebody_has_it):
    log = Log()

    async def repaired(position):
        log.asked.append(position)
        log.is_whole = somebody_has_it
        return somebody_has_it

    reading = base(repaired)
    if somebody_has_it:
        assert await reading.in_thread(log.read, 40) == b"whole"
    else:
        with pytest.raises(DamagedRecord):
            await reading.in_thread(log.read, 40)
    assert (log.asked, log.reads) == ([40], 1 + somebody_has_it)


async def test_a_single_store_does_not_read_again():
    log = Log()
    with pytest.raises(DamagedRecord):
        await base(None).in_thread(log.read, 40)
    assert log.reads == 1
