"""A loop whose time moves only on demand, and threads that work only on demand: one seed gives one life, step by step."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
from dataclasses import replace
from typing import Any

import pytest

from gantry_chassis.machine.environment import Environment, machine

SETTLE_ROUNDS_MAX = 400
"""Rounds of the loop until nothing more happens by itself. A store that needs more hangs."""


class SteppedLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock moves only when the life moves it."""

    def __init__(self, threads: Threads) -> None:
        super().__init__()
        self.now_s = 0.0
        self._threads = SteppedExecutor(threads.jobs)

    def time(self) -> float:
        return self.now_s

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        """Give every thread request a stepped thread."""
        return super().run_in_executor(executor or self._threads, func, *args)


class Threads:
    """All threads of one store, as one queue of jobs that `step` runs in the loop, one at a time."""

    def __init__(self) -> None:
        self.jobs: deque[Callable[[], None]] = deque()

    @property
    def has_work(self) -> bool:
        return bool(self.jobs)

    def environment(self) -> Environment:
        """Return the machine with these threads and a clock whose time does not pass: no work takes long."""
        return replace(machine(), workers=lambda _count, _name: SteppedWorkers(self.jobs), steady=lambda: 0.0)

    def step(self) -> None:
        """Run the oldest job. Raises what the disk raises for a crash."""
        if self.jobs:
            self.jobs.popleft()()

    def drop(self) -> None:
        """Drop the remaining jobs: the process is gone."""
        self.jobs.clear()

    async def settle(self) -> None:
        """Run jobs and callbacks until there are no more."""
        quiet = 0
        for _ in range(SETTLE_ROUNDS_MAX):
            quiet = 0 if self.jobs else quiet + 1
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


class SteppedWorkers:
    """Workers over stepped jobs."""

    def __init__(self, jobs: deque[Callable[[], None]]) -> None:
        self._executor = SteppedExecutor(jobs)

    def run(self, function: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().run_in_executor(self._executor, function, *arguments)

    def close(self, *, wait: bool = True) -> None:
        """Nothing runs by itself."""


def run_stepped(live: Callable[[Threads], Coroutine[Any, Any, None]], *, has_journal: bool) -> None:
    """Run a life whose store has stepped threads and a stepped clock.

    With `has_journal` its few queues use the unit journal.
    """
    threads = Threads()
    with (
        pytest.MonkeyPatch.context() as patch,
        asyncio.Runner(loop_factory=lambda: SteppedLoop(threads)) as runner,
    ):
        if has_journal:
            patch.setattr("broker_store.opening.queue_saving.QUEUES_WITHOUT_JOURNAL_MAX", 1)
        runner.run(live(threads))
