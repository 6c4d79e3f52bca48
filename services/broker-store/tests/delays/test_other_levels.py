"""A store that starts with another list of delay levels: waiting messages keep their due time and stay visible, and keep no log for ever."""

import pytest
from sending_side import ScriptedPeer
from settling_side import SettlingSide

from broker_store.config.delay_levels import DEFAULT_LEVELS, parse_levels
from gantry_wire.names import SCHEDULE_TOPIC
from gantry_wire.private_requests.settling import SettleItem, SettleOutput, SettleStatus
from gantry_wire.records.units import CONSUME_QUEUE_UNIT

pytestmark = pytest.mark.anyio
BEFORE = DEFAULT_LEVELS + " 3h 4h"
LISTS = ["1s 5s 10s", "1s", "7d", DEFAULT_LEVELS + " 3h", " ".join(["1m"] * 18)]
TOPICS = "/store/config/topics.json"


def due_ms(side, queue_id, offset=0):
    unit = side.queues.find(SCHEDULE_TOPIC, queue_id).read(offset, 1)
    return CONSUME_QUEUE_UNIT.unpack(unit)[2]


def start_again(side, levels, how):
    """Open a copy of the disk with another list of levels, as after a kill."""
    files = side.files.killed()
    if how != "kill":
        files.remove("/store/gantry/settled.snapshot")
    if how == "rebuilt without topics" and files.exists(TOPICS):
        files.remove(TOPICS)
    return SettlingSide(files, side.wall_s + 1, delay_levels=levels)


@pytest.mark.parametrize("levels", LISTS)
@pytest.mark.parametrize("level", [1, 3, 20])
@pytest.mark.parametrize("how", ["kill", "rebuilt", "rebuilt without topics"])
async def test_waiting_messages_are_delivered_at_their_time_under_another_list(levels, level, how):
    side, peer = SettlingSide(delay_levels=BEFORE), ScriptedPeer()
    side.delayed(peer, level=level)
    await side.sending.checkpoints.take()
    due = due_ms(side, level - 1)
    assert due == side.clock.now_ms() + parse_levels(BEFORE).durations_ms[level - 1]
    side = start_again(side, levels, how)
    assert side.opening.is_rebuild == (how != "kill")
    assert due_ms(side, level - 1) == due
    assert side.settling.delay_queues() == max(level, len(levels.split())), "so many are followed"
    assert side.settling.has_queue(SCHEDULE_TOPIC, level - 1), "it can be claimed"
    item = SettleItem(0, side.records(SCHEDULE_TOPIC, level - 1)[0].position, [SettleOutput("orders", 0)])
    side.pass_time((due - side.clock.now_ms() - 1) / 1000)
    (early,) = side.settled([item], queue_id=level - 1)
    assert (early.status, early.due_ms) == (SettleStatus.EARLY, due)
    side.pass_time(0.002)
    (settled,) = side.settled([item], queue_id=level - 1)
    assert settled.status == SettleStatus.SETTLED
    assert side.pin is None
    assert side.settling.delay_queues() == len(levels.split())
