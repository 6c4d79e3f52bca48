"""A power cut or a kill at every step of commits, saves, dumps and checkpoints: what was answered is there, from the checkpoint and from the log alone."""

import asyncio
import contextlib

import pytest
from offsets_side import OffsetsSide, opened
from simulated_days import chosen_steps, crashes

from broker_store.log.errors import LogStopped
from broker_store.log.files.simulated_files import Crashed, SimulatedFiles

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300), pytest.mark.crash]
STATES_PER_STEP = 2
QUEUES = 3
DERIVED = ("consumequeue", "index", "gantry/keys", "gantry/units")


class Day:
    """Offsets only grow, one by one, so that every state of a queue has a number."""

    def __init__(self, flush: str) -> None:
        self.flush = flush
        self.files = SimulatedFiles()
        self.given = dict.fromkeys(range(QUEUES), 0)
        """The newest offset by queue."""
        self.answered = dict.fromkeys(range(QUEUES), 0)
        """The newest one that was answered as durable."""
        self.forgotten = False
        """The deletion of the group `gone` was answered."""

    async def live(self) -> None:
        for run in range(2):
            side = self.side = OffsetsSide(self.files, 1_700_000_000.0 + 100 * run, flush=self.flush)
            self.commit(0)
            side.flush()
            await self.finish(side.keeper.save())
            side.keeper.commit_soon("gone", "orders", 0, 5)
            self.commit(1)
            side.end_turn()
            self.commit(2)
            self.move(0)
            await self.finish(side.keeper.save())
            await self.finish(side.sending.checkpoints.take())
            self.commit(1)
            await self.finish(side.keeper.roll(1 << 40))
            self.commit(2)
            await side.keeper.save_file()
            self.move(1)
            side.consuming.offsets.remove_group("gone")
            self.forgotten = await self.finish(side.keeper.save()) is None
            await self.finish(side.sending.checkpoints.take())
            self.commit(0)
            side.flush()
            if run == 0:
                await side.stop()
                self.forgotten = False

    def commit(self, queue_id: int) -> None:
        """Commit the next offset, and note when it is answered."""
        self.given[queue_id] = offset = self.given[queue_id] + 1

        def answer(error: OSError | None) -> None:
            if error is None:
                self.answered[queue_id] = max(self.answered[queue_id], offset)

        self.side.keeper.commit("g", "orders", queue_id, offset, answer)

    def move(self, queue_id: int) -> None:
        """Commit the next offset without an answer."""
        self.given[queue_id] += 1
        self.side.keeper.commit_soon("g", "orders", queue_id, self.given[queue_id])

    async def finish(self, work) -> object:
        return await self.side.finish(work)


async def day_until(step: int | None, flush: str) -> Day:
    day, before = Day(flush), asyncio.all_tasks()
    day.files.crash_after = step
    with contextlib.suppress(Crashed, LogStopped, TimeoutError):
        await day.live()
    day.files.crash_after = None
    for task in asyncio.all_tasks() - before:
        task.cancel()
    await asyncio.sleep(0)
    return day


def check(day: Day, disk: SimulatedFiles) -> None:
    side = opened(disk.killed(), flush=day.flush)
    found = side.offsets()
    for queue_id, answered in day.answered.items():
        assert answered <= found.get(queue_id, 0) <= day.given[queue_id], f"queue {queue_id}"
    assert not day.forgotten or side.offsets("gone") == {}
    bare = disk.killed()
    for name in DERIVED:
        bare.remove_dir(f"/store/{name}")
    for name in (
        "queues.json",
        "queues.json.bak",
        "committed.snapshot",
        "access.snapshot",
        "settled.snapshot",
    ):
        bare.remove(f"/store/gantry/{name}")
    rebuilt = opened(bare, flush=day.flush)
    assert (rebuilt.known(), rebuilt.known("gone")) == (side.known(), side.known("gone"))
    assert (rebuilt.offsets(), rebuilt.offsets("gone")) == (found, side.offsets("gone"))


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.parametrize("flush", ["sync", "async"])
@crashes(sampled=24)
async def test_a_power_cut_at_any_step_loses_no_answered_commit(crashes_max, seed, flush):
    whole = await day_until(None, flush)
    assert whole.answered == {0: 6, 1: 5, 2: 4}
    assert whole.side.keeper.dumps == 1
    steps = len(whole.files.trace)
    for step in chosen_steps(range(1, steps), crashes_max, seed):
        day = await day_until(step, flush)
        for disk in [day.files.killed(), *day.files.crash_states(STATES_PER_STEP, seed=step ^ seed)]:
            check(day, disk)
