"""Opens what another program wrote last: RocketMQ when it crashed, or so it looks because small files are gone. No key is lost."""

import errno
from contextlib import suppress

import pytest
from sending_side import START_S, ScriptedPeer, SendingSide

from broker_store.log.files.simulated_files import Crashed, Fault
from gantry_wire.messages.properties import index_key_hash

pytestmark = pytest.mark.anyio
MIB = 1024 * 1024
COUNT = 40
NOTE = "/store/gantry/queues.json"


def queue_of(number):
    """Only the first messages lie in queue 3."""
    return 3 if number < 3 else number % 3


async def crashed_elsewhere(index_s, *, was_ours=False, **settings):
    """A log of several segments as RocketMQ leaves it: its own abort file, and this index time in its checkpoint.

    Without a Gantry note, if Gantry never ran there.
    """
    side = SendingSide(segment_bytes=MIB, **settings)
    for number in range(COUNT):
        body = bytes([65 + number]) * 100_000
        side.send(ScriptedPeer(), body=body, queue_id=queue_of(number), properties={"KEYS": f"k{number}"})
        side.flush()
        side.pass_time(5)
    await side.sending.checkpoints.close()
    if not was_ours:
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
    again = side.reopen(idempotency_window_seconds=10)
    records = [record for queue_id in range(4) for record in again.records("orders", queue_id)]
    positions = {record.property_map()["KEYS"]: record.position for record in records}
    assert len(records) == COUNT
    for number in range(COUNT):
        assert found(again, number) == [positions[f"k{number}"]]
    assert again.opening.is_rebuild is is_rebuilt


async def test_a_queue_without_a_message_left_keeps_its_next_offset_in_that_rebuild():
    side = await crashed_elsewhere(130)
    side.files.remove(side.log.segments[0].path)  # as retention does
    again = side.reopen(idempotency_window_seconds=10)
    assert again.opening.is_rebuild
    assert [again.queues.open("orders", queue_id).next_offset for queue_id in range(4)] == [13, 12, 12, 3]
    assert found(again, 0) == []
    assert len(found(again, COUNT - 1)) == 1


async def killed(*lost):
    """A log of several segments with a keyed message in its first one, after `kill -9`; without these files."""
    side = SendingSide(segment_bytes=MIB)
    for number in range(2 * COUNT):
        body = bytes([65 + number % 26]) * 100_000
        keyed = {"UNIQ_KEY": "U", "__GANTRY_KEY": "k"} if number == 0 else {}
        side.send(ScriptedPeer(), body=body, queue_id=queue_of(number), properties=keyed)
        side.flush()
        side.pass_time(5)
        if number == COUNT:
            await side.sending.checkpoints.take()
    assert len(side.log.segments) > 6
    for name in lost:
        (side.files.remove_dir if name == "consumequeue" else side.files.remove)(f"/store/{name}")
    return side


@pytest.mark.parametrize(
    "lost", [["abort"], ["abort", "checkpoint"], ["abort", "checkpoint", "consumequeue"]]
)
async def test_a_log_whose_abort_file_is_gone_keeps_its_messages_and_keys(lost):
    side = await killed(*lost)
    again = side.reopen()
    assert sum(len(again.records("orders", queue_id)) for queue_id in range(4)) == 2 * COUNT
    peer = ScriptedPeer()
    again.send(peer, body=b"A" * 100_000, queue_id=3, properties={"UNIQ_KEY": "U2", "__GANTRY_KEY": "k"})
    again.flush()
    assert peer.answers[0].ext["queueOffset"] == "0"
    assert again.opening.is_rebuild is ("consumequeue" in lost)


@pytest.mark.parametrize(
    ("offsets", "is_kept"),
    [
        (b'{"offsetTable":{"t@g":{0:9}}}', False),
        (b'{"gantryJournal":3,"offsetTable":{}}', True),
        (None, True),
    ],
)
async def test_a_journal_of_offsets_is_older_than_the_file_of_another_broker(offsets, is_kept):
    side = await crashed_elsewhere(0)
    side.files.make_dirs("/store/gantry")
    side.files.replace_atomically("/store/gantry/offsets.journal", b"lines")
    if offsets is not None:
        side.files.replace_atomically("/store/config/consumerOffset.json", offsets)
    side.reopen()
    for left in side.files.crash_states(4):
        assert left.exists("/store/gantry/offsets.journal") is is_kept


async def test_units_that_only_the_page_cache_holds_are_written_again_where_the_abort_file_is_lost_too():
    side = SendingSide(segment_bytes=MIB)
    send_numbers(side, 0, 10)
    await side.sending.checkpoints.take()
    send_numbers(side, 10, 300)
    side.files.faults.append(Fault("sync", errno.EIO, "consumequeue/orders"))
    with pytest.raises(OSError, match="injected"):
        await side.sending.checkpoints.take()
    side.files.remove("/store/abort")
    again = side.reopen()
    send_numbers(again, 300, 900)
    await again.sending.checkpoints.take()
    for left in again.files.crash_states(4):
        records = SendingSide(left, segment_bytes=MIB).records()
        assert [record.body for record in records] == [b"%d" % number for number in range(900)]


def send_numbers(side, first, end):
    for number in range(first, end):
        side.send(ScriptedPeer(), body=b"%d" % number)
    side.flush()


async def test_a_file_of_the_index_that_is_damaged_where_the_whole_log_is_walked_hides_no_key():
    side = await crashed_elsewhere(1000, index_entries=32)
    side.files.remove("/store/abort")  # the other writer stopped in order
    first, *others = side.files.listdir("/store/index")
    assert others
    side.files.write_at(f"/store/index/{first}", 36, (31).to_bytes(4, "big"))  # more than its slots lead to
    side.files.write_at(f"/store/index/{first}", 40, bytes(4 * 64))
    again = side.reopen(index_entries=32)
    assert again.opening.began_at == 0
    assert [len(found(again, number)) for number in range(COUNT)] == [1] * COUNT


@pytest.mark.parametrize(
    ("was_ours", "is_noted"), [(False, False), (True, False), (True, True)], ids=["new", "ours", "older"]
)
async def test_a_kill_of_the_start_after_a_crash_of_the_other_writer_leaves_no_index_that_lacks_keys(
    was_ours, is_noted
):
    small = {"segment_bytes": MIB, "index_entries": 32, "idempotency_window_seconds": 10}
    whole = (await crashed_elsewhere(130, was_ours=was_ours, index_entries=32)).files
    names = whole.listdir("/store/index")
    assert len(names) > 2
    # newer than the other writer's checkpoint: the device has the head of the file, and not all entries
    whole.write_at(f"/store/index/{names[-2]}", 40 + 4 * 64, bytes(20 * 8))
    note = whole.read_bytes(NOTE)
    traced = whole.killed()
    SendingSide(traced, START_S + 300, **small)
    for step, (operation, path) in enumerate(traced.trace):
        if (operation == "remove" and "/index/" in path) or path.endswith("log.note"):
            files = whole.killed()
            files.crash_after = step
            with suppress(Crashed):
                SendingSide(files, START_S + 300, **small)
            left = files.killed()
            if is_noted:  # an earlier version left it there until its first checkpoint
                left.replace_atomically(NOTE, note)
            again = SendingSide(left, START_S + 310, **small)
            assert [len(found(again, number)) for number in range(COUNT)] == [1] * COUNT, step
