"""The first start over another broker's directory, stopped halfway: the next one still knows what that broker delivered."""

import pytest
from sending_side import HOST, ScriptedPeer
from settling_side import SettlingSide

from broker_store.opening.opening import Opening
from gantry_wire.names import SCHEDULE_TOPIC

pytestmark = pytest.mark.anyio
SOURCE = (SCHEDULE_TOPIC, 0, "")


async def left_by_another_broker(abort):
    side, peer = SettlingSide(), ScriptedPeer()
    side.topics.ensure("orders", 4)
    for number in range(6):
        side.delayed(peer, b"m%d" % number)
    await side.sending.checkpoints.close()
    side.files.remove_dir("/store/gantry")
    side.files.replace_atomically("/store/config/delayOffset.json", b'{"offsetTable":{1:4}}')
    if abort:
        side.files.replace_atomically("/store/abort", b"4711")
    return side


def begin(side, slices):
    """Begin a start and stop it after this many slices, as SIGTERM does.

    None: kill it after the opening, before it logs anything.
    """
    opening = Opening(side.settings, side.files, side.clock, HOST, side.environment)
    running = opening.run()
    if slices is None:
        list(running)
        return
    for _ in range(slices):
        next(running)
    opening.abandon()


@pytest.mark.parametrize("abort", [True, False])
@pytest.mark.parametrize("slices", [0, 1, None])
async def test_a_first_start_that_did_not_end_takes_nothing_of_that_knowledge(slices, abort):
    side = await left_by_another_broker(abort)
    begin(side, slices)
    again = side.reopen()
    assert again.settling.table.of(SOURCE).cursor == 4
    await again.sending.checkpoints.take()
    assert not again.files.exists("/store/gantry/foreign.json")
    assert again.reopen().settling.table.of(SOURCE).cursor == 4
