"""Units of many queues at a checkpoint: the journal has them, the files follow in rounds, and no power cut loses one."""

import asyncio
import contextlib
import errno

import pytest
from sending_side import DIRECTORY, ScriptedPeer, SendingSide
from simulated_days import chosen_steps, crashes

from broker_store.log.files.simulated_files import Crashed, Fault, SimulatedFiles
from broker_store.opening import queue_saving

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]
QUEUES = 7
JOURNAL = f"{DIRECTORY}/gantry/units"


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch):
    """Count three changed queues as many. A round writes two per checkpoint, or as many as its share of log requires."""
    monkeypatch.setattr(queue_saving, "QUEUES_WITHOUT_JOURNAL_MAX", 2)
    monkeypatch.setattr(queue_saving, "RUNS_PER_SLICE", 2)


class Life:
    """Sends to a few queues in turn, with the acknowledgements."""

    def __init__(self, files: SimulatedFiles | None = None, **settings: int) -> None:
        self.side = SendingSide(files, **settings)
        self.acknowledged: dict[tuple[str, int], list[bytes]] = {}

    def send_to(self, queue_ids: range, text: str, topic: str = "orders") -> None:
        peer, side = ScriptedPeer(), self.side
        side.topics.ensure(topic, QUEUES)
        for queue_id in queue_ids:
            side.send(peer, topic, f"{text}-{queue_id}".encode(), queue_id)
        side.flush()
        assert all(answer.code == 0 for answer in peer.answers)
        for queue_id in queue_ids:
            self.acknowledged.setdefault((topic, queue_id), []).append(f"{text}-{queue_id}".encode())

    async def checkpoint(self) -> None:
        await self.side.sending.checkpoints.take()

    async def rounds(self, count: int) -> None:
        for number in range(count):
            self.send_to(range(QUEUES), f"m{number}")
            await self.checkpoint()

    def delete(self, topic: str) -> None:
        self.side.ask(ScriptedPeer(), 215, {"topic": topic})
        self.side.flush()
        for queue_id in range(QUEUES):
            self.acknowledged.pop((topic, queue_id), None)

    def check(self, disk: SimulatedFiles, *, rebuilt: bool | None = False, **settings: int) -> SendingSide:
        again = SendingSide(disk, 1_700_000_100.0, **settings)
        if rebuilt is not None:
            assert again.opening.is_rebuild is rebuilt
        for (topic, queue_id), bodies in self.acknowledged.items():
            assert [record.body for record in again.records(topic, queue_id)] == bodies
        return again


def journal_files(disk: SimulatedFiles) -> list[str]:
    return disk.listdir(JOURNAL)


async def test_many_changed_queues_cost_one_synced_write_and_a_part_of_their_files():
    life = Life()
    life.send_to(range(QUEUES), "a")
    before = len(life.side.files.trace)
    await life.checkpoint()
    steps = life.side.files.trace[before:]
    assert [step for step in steps if step[0] == "sync" and step[1].startswith(JOURNAL)]
    written = {path for step, path in steps if step == "pwrite" and "consumequeue" in path}
    assert len(written) == 2, "the least a checkpoint writes out: it covers little log"


@pytest.mark.parametrize("checkpoints", range(1, 8))
async def test_after_any_number_of_checkpoints_no_unit_is_lost_and_nothing_is_read_again(checkpoints):
    life = Life()
    await life.rounds(checkpoints)
    for disk in life.side.files.crash_states(4, seed=checkpoints):
        again = life.check(disk)
        assert again.opening.records == 0, "the checkpoint covers everything"


async def test_a_checkpoint_that_covers_much_log_writes_out_more_files():
    life = Life(checkpoint_bytes=1)
    life.send_to(range(QUEUES), "a")
    before = len(life.side.files.trace)
    await life.checkpoint()
    steps = life.side.files.trace[before:]
    written = {path for step, path in steps if step == "pwrite" and "consumequeue" in path}
    assert len(written) == QUEUES + 2, "all, and those of the segment records and of the topics"
    await life.rounds(3)
    assert life.check(life.side.files.killed()).opening.records == 0


async def test_the_journal_keeps_two_rounds_at_most():
    life = Life()
    await life.rounds(12)
    assert 1 <= len(journal_files(life.side.files)) <= 2
    life.send_to(range(1), "alone")
    while journal_files(life.side.files):  # the files catch up with few changed queues
        life.send_to(range(1), "more")
        await life.checkpoint()
    life.check(life.side.files.killed())


async def test_a_checkpoint_without_new_messages_continues_the_round():
    life = Life()
    await life.rounds(1)
    await life.checkpoint()
    await life.rounds(2)
    again = life.check(life.side.files.killed())
    assert again.opening.records == 0


async def test_an_orderly_stop_leaves_everything_in_the_files_of_the_queues():
    life = Life()
    await life.rounds(2)
    life.send_to(range(QUEUES), "last")
    await life.side.sending.checkpoints.close()
    assert journal_files(life.side.files) == []
    for disk in life.side.files.crash_states(4):
        again = life.check(disk)
        assert again.opening.records == 0
        assert all(queue.units.is_durable for queue in again.queues.all())


async def test_a_run_after_a_crash_writes_the_files_first_and_then_needs_the_old_journal_no_more():
    life = Life()
    await life.rounds(4)
    again = Life(life.side.files.killed())
    again.acknowledged = life.acknowledged
    life.check(again.side.files.killed())
    again.send_to(range(QUEUES), "second")
    await again.checkpoint()
    assert journal_files(again.side.files) == []
    await again.rounds(3)
    third = again.check(again.side.files.killed())
    assert third.opening.records == 0


@pytest.mark.parametrize("harm", ["flipped", "cut", "removed"])
async def test_a_damaged_journal_is_detected_and_the_queues_are_rebuilt(harm):
    life = Life()
    await life.rounds(5)
    disk = life.side.files.killed()
    path = f"{JOURNAL}/{journal_files(disk)[-1]}"
    if harm == "flipped":
        disk.flip(path, disk.size(path) // 2, 0x10)
    elif harm == "cut":
        disk.open(path).truncate(disk.size(path) - 5)
    else:
        disk.remove(path)
    life.check(disk, rebuilt=True)


@pytest.mark.parametrize("lost", [["abort"], ["abort", "gantry/log.note"]])
async def test_units_of_the_journal_are_read_from_the_log_where_the_small_files_of_the_run_are_lost(lost):
    life = Life()
    await life.rounds(1)
    for number in range(11):  # a segment for each checkpoint
        life.send_to(range(QUEUES), f"{number:x}" * 600_000)
        life.side.pass_time(10)
        await life.checkpoint()
    life.send_to(range(QUEUES), "newest")
    disk = life.side.files.killed()
    (lowest, *_) = journal_files(disk)
    assert life.side.log.segments[-3].start > int(lowest)
    for name in lost:
        disk.remove(f"{DIRECTORY}/{name}")
    again = life.check(disk, idempotency_window_seconds=5)
    assert again.opening.began_at > 0


async def test_a_chunk_whose_checkpoint_failed_is_written_again():
    life = Life()
    await life.rounds(2)
    life.send_to(range(QUEUES), "b")
    life.side.files.faults.append(Fault("pwrite", errno.ENOSPC, "/index/"))
    with pytest.raises(OSError, match="injected"):
        await life.checkpoint()
    life.check(life.side.files.killed())
    life.send_to(range(QUEUES), "c")
    await life.checkpoint()
    again = life.check(life.side.files.killed())
    assert again.opening.records == 0


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EMFILE])
@pytest.mark.parametrize("part", ["gantry/units", "consumequeue"])
@pytest.mark.parametrize("call", ["open", "pwrite"])
async def test_no_room_or_no_descriptor_fails_one_checkpoint_and_not_the_next(error, part, call):
    life = Life()
    await life.rounds(1)
    life.send_to(range(QUEUES), "b")
    life.side.files.faults.append(Fault(call, error, part, count=3))
    for _ in range(3):
        with contextlib.suppress(OSError):
            await life.checkpoint()
    await life.rounds(3)
    again = life.check(life.side.files.killed())
    assert again.opening.records == 0


@pytest.mark.parametrize("part", ["gantry/units", "consumequeue"])
async def test_a_failed_sync_of_units_ends_the_checkpoints_of_this_run(part):
    life = Life()
    await life.rounds(1)
    life.send_to(range(QUEUES), "b")
    life.side.files.faults.append(Fault("sync", errno.EIO, part))
    with pytest.raises(OSError, match="injected"):
        await life.checkpoint()
    with pytest.raises(OSError, match="no checkpoint after a failed sync"):
        await life.checkpoint()
    life.check(life.side.files.killed())


async def test_the_messages_of_a_deleted_topic_do_not_come_back_from_the_journal():
    life = Life()
    life.send_to(range(QUEUES), "old", "short")
    await life.checkpoint()
    life.delete("short")
    life.send_to(range(2), "new", "short")
    life.send_to(range(QUEUES), "a")
    await life.checkpoint()
    again = life.check(life.side.files.killed())
    assert again.queues.find("short", 4) is None or not again.records("short", 4)
    assert [record.queue_offset for record in again.records("short", 0)] == [1]


async def test_a_deletion_in_the_middle_of_a_checkpoint_is_survived():
    life = Life()
    await life.rounds(1)
    life.send_to(range(QUEUES), "gone", "short")
    life.send_to(range(QUEUES), "kept")
    taking = asyncio.create_task(life.checkpoint())
    await asyncio.sleep(0)
    life.delete("short")
    await taking
    await life.rounds(3)
    again = life.check(life.side.files.killed(), rebuilt=None)
    assert not again.records("short", 3)


async def day(files: SimulatedFiles, crash_after: int | None = None) -> Life:
    """Overlapping rounds, a deletion, few changed queues in between, a start after a kill, a stop."""
    life = Life(files)
    files.crash_after = crash_after
    with contextlib.suppress(Crashed):
        await life.rounds(3)
        life.send_to(range(2), "few")
        await life.checkpoint()
        life.send_to(range(QUEUES), "s", "short")
        await life.checkpoint()
        life.delete("short")
        await life.rounds(3)
        life.side = SendingSide(files)
        life.send_to(range(QUEUES), "again")
        await life.checkpoint()
        await life.rounds(2)
        await life.side.sending.checkpoints.close()
    return life


@pytest.mark.crash
@crashes(sampled=40)
async def test_a_power_cut_at_any_step_of_saving_loses_no_unit(crashes_max, seed):
    steps = len((await day(SimulatedFiles())).side.files.trace)
    for step in chosen_steps(range(1, steps), crashes_max, seed):
        files = SimulatedFiles()
        life = await day(files, step)
        files.crash_after = None
        for disk in files.crash_states(2, seed=step ^ seed):
            again = SendingSide(disk, 1_700_000_100.0)
            for (topic, queue_id), bodies in life.acknowledged.items():
                found = [record.body for record in again.records(topic, queue_id)]
                if topic == "orders":
                    assert found[: len(bodies)] == bodies, f"lost at step {step}"
        await asyncio.sleep(0)
