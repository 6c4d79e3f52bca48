"""A loop whose time moves only on demand, and threads that work only on demand: one seed gives one life, step by step."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
from typing import Any

import pytest

SETTLE_ROUNDS_MAX = 400
"""Rounds of the loop until nothing more happens by itself. A store that needs more hangs."""


class SteppedLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock moves only when the life moves it."""

    def __init__(self, threads: Threads) -> None:
        super().__init__()
        self.now_s = 0.0
        self._threads = threads.executor()

    def time(self) -> float:
        return self.now_s

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        """Give every thread request a stepped thread."""
        return super().run_in_executor(executor or self._threads, func, *args)


class Threads:
    """All threads of one store, as one queue of jobs that `step` runs in the loop, one at a time."""

    def __init__(self) -> None:
        self._jobs: deque[Callable[[], None]] = deque()

    @property
    def has_work(self) -> bool:
        return bool(self._jobs)

    def executor(self, *_arguments: Any, **_named: Any) -> SteppedExecutor:
        """Replaces ThreadPoolExecutor."""
        return SteppedExecutor(self._jobs)

    def step(self) -> None:
        """Run the oldest job. Raises what the disk raises for a crash."""
        if self._jobs:
            self._jobs.popleft()()

    def drop(self) -> None:
        """Drop the remaining jobs: the process is gone."""
        self._jobs.clear()

    async def settle(self) -> None:
        """Run jobs and callbacks until there are no more."""
        quiet = 0
        for _ in range(SETTLE_ROUNDS_MAX):
            quiet = 0 if self._jobs else quiet + 1
            if quiet > 8:
                return
            self.step()
            await asyncio.sleep(0)


class SteppedExecutor(Executor):
    """Jobs of one thread."""

    def __init__(self, jobs: deque[Callable[[], None]]) -> None:
        self._jobs = jobs

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - the waiting caller gets it
                future.set_exception(error)
            else:
                future.set_result(result)

        self._jobs.append(run)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Do nothing: no job runs by itself."""


EXECUTORS = (
    "sending_side.ThreadPoolExecutor",
    "broker_store.process.reading.ThreadPoolExecutor",
    "broker_store.groups.offset_keeper.ThreadPoolExecutor",
    "broker_store.groups.locks.lock_handler.ThreadPoolExecutor",
)


class _StillTime:
    """Replaces the module `time` where work measures its duration, which is then always short."""

    @staticmethod
    def monotonic() -> float:
        return 0.0

    @staticmethod
    def perf_counter() -> float:
        return 0.0


def run_stepped(live: Callable[[Threads], Coroutine[Any, Any, None]], *, has_journal: bool) -> None:
    """Run a life whose store has stepped threads and a stepped clock.

    With `has_journal` its few queues use the unit journal.
    """
    threads = Threads()
    with (
        pytest.MonkeyPatch.context() as patch,
        asyncio.Runner(loop_factory=lambda: SteppedLoop(threads)) as runner,
    ):
        for name in EXECUTORS:
            patch.setattr(name, threads.executor)
        patch.setattr("broker_store.opening.checkpoints.time", _StillTime)
        patch.setattr("broker_store.commit.loop_yielding.time", _StillTime)
        if has_journal:
            patch.setattr("broker_store.opening.queue_saving.QUEUES_WITHOUT_JOURNAL_MAX", 1)
        runner.run(live(threads))
