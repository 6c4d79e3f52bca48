"""Damage that leaves of a message only what groups did with it: its offset is not used again, so the next message is delivered."""

import asyncio

import pytest
from leasing_side import LeasingSide

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
