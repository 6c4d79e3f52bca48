"""A rebuild that a kill or a power cut ends leaves nothing that the next start takes for whole."""

from contextlib import suppress

import pytest
from sending_side import START_S, ScriptedPeer, SendingSide

from broker_store.log.files.simulated_files import Crashed

pytestmark = pytest.mark.anyio
MESSAGES = 100  # the units of a queue fill several sectors


async def covered_side(**settings) -> SendingSide:
    side = SendingSide(**settings)
    for number in range(MESSAGES):
        side.send(ScriptedPeer(), body=b"%d" % number)
    side.send(ScriptedPeer(), "other", body=b"other")
    side.flush()
    await side.sending.checkpoints.take()
    return side


async def test_a_power_cut_during_the_first_checkpoint_after_a_rebuild_hides_no_message():
    side = await covered_side(index_enable=False)
    side.files.remove_dir("/store/consumequeue/other")
    again = side.reopen(index_enable=False)
    assert again.opening.is_rebuild
    for queue in again.queues.all():
        queue.units.flush()
    disk = again.files.killed()
    disk.write_at("/store/consumequeue/orders/0/00000000000000000000", 512, bytes(512))  # was not written yet
    cut = SendingSide(disk, START_S + 10, index_enable=False)
    assert [record.body for record in cut.records()] == [b"%d" % number for number in range(MESSAGES)]


async def test_a_kill_at_any_step_of_a_rebuild_leaves_every_message_of_a_queue_that_lost_its_first_file():
    small = {"queue_file_units": 16}
    whole = (await covered_side(**small)).files
    whole.remove("/store/consumequeue/orders/0/00000000000000000000")
    for step in range(0, 120, 3):
        files = whole.killed()
        files.crash_after = step
        with suppress(Crashed):
            SendingSide(files, START_S + 5, **small)
        files.crash_after = None
        again = SendingSide(files.killed(), START_S + 10, **small)
        assert [record.body for record in again.records()] == [b"%d" % number for number in range(MESSAGES)]
