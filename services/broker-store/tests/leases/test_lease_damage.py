"""Messages that damage or a power cut takes, and what groups did with them: the next message is delivered all the same."""

import asyncio

import pytest
from leasing_side import LeasingSide, item
from sending_side import ScriptedPeer

from gantry_wire.private_requests.leases import ItemKind, ItemStatus

pytestmark = pytest.mark.anyio
SIZE_BYTE = 3
"""The lowest byte of a record's size. Without it, the record's other fields are not believed."""


def destroy_latest(side: LeasingSide) -> None:
    """Change the record of a queue's latest message. No unit of it is on the disk."""
    queue = side.store.queues.find("orders", 0)
    position = int.from_bytes(queue.read(queue.max_offset - 1, 1)[:8], "big")
    side.files.flip(side.log.segments[0].path, position + SIZE_BYTE, 1)


@pytest.mark.parametrize("fate", ["acknowledged", "dead"])
async def test_a_message_after_a_destroyed_one_is_delivered(fate):
    side = LeasingSide()
    side.set_group(retry_max_times=0)
    side.put("first", "second")
    second = side.lease()[1]
    if fate == "acknowledged":
        side.ack(second)
    else:
        side.nack(second)
        async with asyncio.timeout(60):
            while not side.records("%DLQ%g"):
                await asyncio.sleep(0.005)
                side.flush()
    destroy_latest(side)
    for _ in range(2):  # the second start meets the same damage, and a message behind it
        side = side.reopen()
        side.put("next")
    assert [one.body for one in side.lease()] == ["first", "next", "next"]


async def test_attempts_of_a_destroyed_message_do_not_count_for_the_next():
    side = LeasingSide()
    side.set_group(retry_max_times=5)
    side.put("first", "second")
    for _ in range(3):
        side.nack(*side.lease())
    destroy_latest(side)
    side = side.reopen()
    side.put("next")
    assert [(one.body, one.attempt) for one in side.lease()] == [("first", 4), ("next", 1)]


@pytest.mark.parametrize("starts", [1, 2])
@pytest.mark.parametrize("kind", [ItemKind.ACK, ItemKind.NACK])
async def test_the_handle_of_a_lost_message_changes_nothing_of_the_next_one_at_its_offset(kind, starts):
    side = LeasingSide(flush="async")
    side.put("kept")
    side.send(ScriptedPeer(), "orders", b"lost")
    side.end_turn()
    side.appends.flush()  # visible, and not synced
    kept, lost = side.lease()
    side = LeasingSide(next(side.files.crash_states(2)), side.wall_s + 1, flush="async")
    side.put("next")
    for _ in range(1, starts):
        side = side.reopen()
    record = side.records("orders")[1]
    assert (record.body, record.queue_offset) == (b"next", lost.record.queue_offset)
    assert side.extend(lost) == [ItemStatus.EXPIRED]
    assert side.settle(item(lost, kind)) == [ItemStatus.EXPIRED]
    assert side.ack(kept) == [ItemStatus.DONE if starts == 1 else ItemStatus.EXPIRED]
    assert [(one.body, one.attempt) for one in side.lease()][-1] == ("next", 1)


async def test_a_message_with_damaged_properties_becomes_a_dead_letter():
    side = LeasingSide()
    side.set_group(retry_max_times=0)
    side.put("whole")
    position = side.records("orders")[0].position
    data = side.log.read_record(position)
    side.files.flip(side.log.segments[0].path, position + data.rindex(b"\x01") + 1, 0x80)
    side.nack(*side.lease())
    async with asyncio.timeout(60):
        while not side.records("%DLQ%g"):
            await asyncio.sleep(0.005)
            side.flush()
    (letter,) = side.records("%DLQ%g")
    assert letter.body == b"whole"
    assert side.committed() == 1
