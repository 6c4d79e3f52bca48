"""A random life of one store directory: runs of the store under changing settings, each ended by a kill, a power cut or a stop.

At each end, every possible disk (or a sample) is opened from its checkpoint and from the log alone, and
compared.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Any

from acts import Acts
from answered_config import AnsweredConfig
from comparison import Allowed
from crash_checks import Tally, check_disk
from sending_side import START_S
from stepped import SteppedLoop, Threads
from store_side import WholeSide

from broker_store.log.files.simulated_files import Crashed, SimulatedFiles

RUNS = 3
ACTS_PER_RUN = 30
STATES_PER_END = 2
"""Disks of a power cut that are checked. That of a kill is always checked."""
SMALL: dict[str, Any] = {
    "segment_bytes": 64 * 1024, "queue_file_units": 64, "index_entries": 256, "index_slots": 64,
    "zero_ahead_bytes": 0, "send_wait_ms_max": 60_000, "idempotency_keys_max": 1000,
}  # fmt: skip
LEVELS = ("1s 5s 10s 30s", "1s 5s 10s 30s 1m", "2s 10s 20s 1m 2m")


class StoreLife:
    """One life. All randomness comes from one seed."""

    def __init__(self, seed: int, threads: Threads, tally: Tally) -> None:
        self.dice = random.Random(seed)
        self.threads = threads
        self.tally = tally
        self.allowed = Allowed()
        self.answered = AnsweredConfig()
        self.acts = Acts(self.dice, self.allowed, self.answered)
        self.weights = {
            act: weight * self.dice.choice((0, 1, 1, 3)) for act, weight in self.acts.all().items()
        }
        self.files = SimulatedFiles()
        self.wall_s = START_S
        self.settings = {**SMALL, "flush": "sync"}
        self.may_rebuild = False
        """The settings of the index changed, and no checkpoint of the new index exists yet."""
        self.faults: list[BaseException] = []
        self._opened: WholeSide | None = None
        """The store of this run, once its opening is complete."""

    async def live(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SteppedLoop)
        self._loop = loop
        loop.set_exception_handler(self._failed)
        for _ in range(RUNS):
            self._draw_settings()
            with contextlib.suppress(Crashed):
                await self._run()
            await self._end_run()
        self.tally.lives += 1

    def _failed(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, Crashed):
            self.faults.append(error or RuntimeError(str(context)))

    # --- one run

    def _draw_settings(self) -> None:
        """Choose the settings of the next run. Some of them change what a store may find of earlier runs."""
        dice, before = self.dice, self.settings
        self.settings = {
            **before,
            "flush": dice.choice(("sync", "async")),
            "idempotency_window_seconds": dice.choice((5, 60, 3600)),
        }
        if dice.random() < 0.15:
            self.settings["index_slots"] = dice.choice((64, 96, 128))
        if dice.random() < 0.15:
            self.settings["delay_levels"] = dice.choice(LEVELS)
        self.may_rebuild |= self.settings["index_slots"] != before["index_slots"]
        self.allowed.has_changed_levels |= self.settings.get("delay_levels") != before.get("delay_levels")

    async def _run(self) -> None:
        dice = self.dice
        if dice.random() < 0.2:
            self.files.crash_after = dice.randint(0, 150)
        self._opened = None
        side = self.side = self._opened = WholeSide(
            self.files, self.wall_s, environment=self.threads.environment(), **self.settings
        )
        if dice.random() < 0.7 and self.files.crash_after is None:
            self.files.crash_after = dice.randint(20, 600)
        self.answered.continue_with(side.store.states.config)
        self.acts.begin(side)
        around: dict[Callable[[], Awaitable[None] | None], int] = {
            self._flush: 12, self._end_turn: 14, self._step: 20, self._settle_down: 6, self._take_checkpoint: 6,
            self._save_offsets: 5, self._save_file: 2, self._dump_offsets: 1, self._pass_time: 4, self._delete_old: 1,
        }  # fmt: skip
        choices = {**around, **self.weights}
        for _ in range(ACTS_PER_RUN):
            act = dice.choices(list(choices), list(choices.values()))[0]
            waiting = act()
            if waiting is not None:
                await waiting
            await asyncio.sleep(0)
            self._tick(dice.choice((0.001, 0.004)))
        if dice.random() < 0.3:
            await self._stop()

    def _tick(self, seconds: float) -> None:
        self.side.pass_time(seconds)
        self._loop.now_s += seconds
        self.wall_s = self.side.wall_s

    def _flush(self) -> None:
        self.side.flush()

    def _end_turn(self) -> None:
        self.side.end_turn()

    async def _step(self) -> None:
        """Let threads run a few jobs."""
        for _ in range(self.dice.randint(1, 8)):
            self.threads.step()
            await asyncio.sleep(0)

    async def _settle_down(self) -> None:
        """Let threads run until they rest, which may precede the next flush of an async store."""
        if self.dice.random() < 0.5:
            self.side.flush()
        else:
            self.side.end_turn()
        await self.threads.settle()

    def _take_checkpoint(self) -> None:
        """Begin a checkpoint. It continues beside what follows, as far as threads are stepped."""
        self._begin(self.side.sending.checkpoints.take())

    def _save_offsets(self) -> None:
        self._begin(self.side.consuming.keeper.save())

    def _save_file(self) -> None:
        self._begin(self.side.consuming.keeper.save_file())

    def _dump_offsets(self) -> None:
        """Write all offsets again, where retention waits for it and sometimes where it does not."""
        care, side = self.side.care, self.side
        below = care.roll_below if self.dice.random() < 0.5 else side.log.written_end
        self._begin(side.consuming.keeper.roll(below))

    def _delete_old(self) -> None:
        self._begin(self.side.care.delete_expired())

    def _pass_time(self) -> None:
        """Let time pass. Sometimes the wall clock steps."""
        self._tick(self.dice.choice((0.5, 2, 20, 70)))
        if self.dice.random() < 0.1:
            self.side.wall_s += self.dice.choice((-3600, 3600, 90_000))

    def _begin(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Future[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, Crashed):
            self.faults.append(error)

    async def _stop(self) -> None:
        """Stop in order."""
        side = self.side
        side.flush()
        await self.threads.settle()
        for work in (side.consuming.stop, side.leasing.close, self._close_sending):
            task = asyncio.ensure_future(work())
            for _ in range(20):
                if task.done():
                    break
                side.flush()
                await self.threads.settle()
            assert task.done(), "a stop does not come to its end"
            await task

    async def _close_sending(self) -> None:
        sending = self.side.sending
        await self.side.configuration.save()
        await sending.checkpoints.close()
        self.side.log.close()

    # --- its end

    async def _end_run(self) -> None:
        """End the process: check each disk it may have left, and continue with one of them."""
        if self.faults:
            raise self.faults[0]
        await self._drop_tasks()
        self.faults.clear()  # of what was cut off in the middle
        self.acts.note_deletions()
        disks = [self.files.killed(), *self.files.crash_states(STATES_PER_END, self.dice.randrange(1 << 30))]
        if (side := self._opened) is not None:
            self.may_rebuild &= not side.sending.checkpoints.count
            window_ms = self.settings["idempotency_window_seconds"] * 1000
            self.allowed.removed_below = max(self.allowed.removed_below, side.log.min_position)
            self._note_kept_offsets(side)
            self.allowed.forgotten_ms = max(self.allowed.forgotten_ms, side.clock.now_ms() - window_ms)
        self.wall_s += self.dice.choice((0.5, 0.5, 5, 100, -1800, 7200))
        for disk in disks:
            check_disk(
                disk,
                self.settings,
                self.wall_s,
                self.allowed,
                self.answered,
                self.tally,
                may_rebuild=self.may_rebuild,
            )
        self.files = self.dice.choice(disks)

    def _note_kept_offsets(self, side: WholeSide) -> None:
        for topic, group, offsets in side.consuming.offsets.all():
            if group in self.allowed.deleted_with_offsets:
                for queue_id, offset in offsets.items():
                    key = group, topic, queue_id
                    self.allowed.committed[key] = max(offset, self.allowed.committed.get(key, 0))

    async def _drop_tasks(self) -> None:
        self.threads.drop()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        self.threads.drop()
