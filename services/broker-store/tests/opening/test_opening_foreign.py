"""Opens what RocketMQ left when it crashed: its index is not trusted, and no key is lost."""

import pytest
from sending_side import START_S, ScriptedPeer, SendingSide

from gantry_wire.messages.properties import index_key_hash

pytestmark = pytest.mark.anyio
MIB = 1024 * 1024
COUNT = 30


def queue_of(number):
    """Only the first messages lie in queue 3."""
    return 3 if number < 3 else number % 3


async def crashed_elsewhere(index_s):
    """A log of several segments as RocketMQ leaves it: an abort file, no Gantry note, and this index time in its checkpoint."""
    side = SendingSide(segment_bytes=MIB)
    for number in range(COUNT):
        body = bytes([65 + number]) * 100_000
        side.send(ScriptedPeer(), body=body, queue_id=queue_of(number), properties={"KEYS": f"k{number}"})
        side.flush()
        side.pass_time(5)
    await side.sending.checkpoints.close()
    side.files.remove_dir("/store/gantry")
    side.files.replace_atomically("/store/abort", b"4711")
    index_ms = int(START_S + index_s) * 1000 if index_s else 0
    side.files.write_at("/store/checkpoint", 16, index_ms.to_bytes(8, "big"))
    assert len(side.log.segments) >= 3
    return side


def found(side, number):
    return side.store.index.lookup(index_key_hash("orders", f"k{number}"), 0, 1 << 60, 10)


@pytest.mark.parametrize(("index_s", "is_rebuilt"), [(0, False), (130, True)])
async def test_every_key_is_found_after_a_crash_of_the_other_writer(index_s, is_rebuilt):
    side = await crashed_elsewhere(index_s)
    again = side.reopen()
    records = [record for queue_id in range(4) for record in again.records("orders", queue_id)]
    positions = {record.property_map()["KEYS"]: record.position for record in records}
    assert len(records) == COUNT
    for number in range(COUNT):
        assert found(again, number) == [positions[f"k{number}"]]
    assert again.opening.is_rebuild is is_rebuilt


async def test_a_queue_without_a_message_left_keeps_its_next_offset_in_that_rebuild():
    side = await crashed_elsewhere(130)
    side.files.remove(side.log.segments[0].path)  # as retention does
    again = side.reopen()
    assert again.opening.is_rebuild
    assert [again.queues.open("orders", queue_id).next_offset for queue_id in range(4)] == [9, 9, 9, 3]
    assert found(again, 0) == []
    assert len(found(again, COUNT - 1)) == 1
