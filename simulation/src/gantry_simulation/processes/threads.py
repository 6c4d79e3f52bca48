"""Threads of a simulated process. A call is one event: it takes drawn time, and may stall for long."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar, TypeVarTuple

from gantry_chassis.machine.environment import Step
from gantry_simulation.world.process_loop import ProcessLoop
from gantry_simulation.world.world import SECOND_NS, World

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


@dataclass(slots=True)
class Pace:
    """How long calls in threads take, from now on. Ranges are nanoseconds, (least, most)."""

    call_ns: tuple[int, int] = (20_000, 2_000_000)
    stall_chance: float = 0.002
    stall_ns: tuple[int, int] = (50_000_000, 3_000_000_000)

    def draw_ns(self, rng: random.Random) -> int:
        """Return how long a call takes."""
        return rng.randint(*(self.stall_ns if rng.random() < self.stall_chance else self.call_ns))


class SimulatedWorkers:
    """Some threads that share one queue of calls. Calls begin in the order of `run`.

    The call happens at one drawn moment between its begin and its end, whole: two threads never run at once. A call that waits for
    another thread would therefore wait for ever.
    """

    def __init__(self, world: World, loop: ProcessLoop, count: int, name: str, pace: Pace) -> None:
        self._world, self._loop, self._pace = world, loop, pace
        self._name = name
        self._rng = world.rng(f"threads {name} of {loop.name} at {world.now_ns}")
        self._free = count
        self._waiting: deque[tuple[asyncio.Future[object], Callable[[], object]]] = deque()

    def run(self, function: Callable[[*Ts], T], *arguments: *Ts) -> asyncio.Future[T]:
        """Call `function` in one of the threads."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._waiting.append((future, lambda: function(*arguments)))  # pyright: ignore[reportArgumentType]  # as object
        self._begin()
        return future

    def close(self, *, wait: bool = True) -> None:
        """Do nothing: the threads end with their calls. Nothing waits for them, which `wait` would ask for."""

    def _begin(self) -> None:
        while self._free and self._waiting:
            future, call = self._waiting.popleft()
            if future.cancelled():
                continue
            self._free -= 1
            takes_ns = self._pace.draw_ns(self._rng)
            happens_ns = self._rng.randint(0, takes_ns)
            self._world.after(happens_ns, partial(self._happen, future, call, takes_ns - happens_ns))

    def _happen(self, future: asyncio.Future[object], call: Callable[[], object], rest_ns: int) -> None:
        if self._loop.is_closed():
            return
        self._world.record(self._loop.name, "thread", self._name)
        try:
            result, error = call(), None
        except Exception as raised:  # noqa: BLE001 - it belongs to the caller
            result, error = None, raised
        self._world.after(rest_ns, lambda: self._finish(future, result, error))

    def _finish(self, future: asyncio.Future[object], result: object, error: Exception | None) -> None:
        if self._loop.is_closed():
            return
        self._free += 1
        self._loop.deliver(_settle, future, result, error)
        self._begin()


class SimulatedThread:
    """A thread in steps. What a step does happens in one event, a drawn time after its wake. What it reports reaches the loop later.

    So a sync covers what was written before it began, and its process works on until it hears of it.
    """

    def __init__(self, world: World, loop: ProcessLoop, step: Step, name: str, pace: Pace) -> None:
        self._world, self._loop, self._step, self._pace = world, loop, step, pace
        self._name = name
        self._rng = world.rng(f"thread {name} of {loop.name} at {world.now_ns}")
        self._is_started = self._is_woken = self._is_stopped = False
        self._planned = 0
        self._is_soon = False
        """The planned step follows a wake, not a wait."""
        self._reports: list[asyncio.Handle] | None = None
        """Of a step that has not ended."""

    def wake(self) -> None:
        """Run a step soon, or after the one under way."""
        self._is_woken = True
        if self._is_started and not self._is_soon and self._reports is None:
            self._is_soon = True
            self._plan(self._pace.draw_ns(self._rng))

    def start(self) -> None:
        """Work from now on."""
        self._is_started = True
        if self._is_woken:
            self.wake()

    def stop(self) -> None:
        """End, after one more step if it was woken."""
        self._deliver()
        if self._is_started and self._is_woken and not self._is_stopped:
            self._is_woken = False
            self._step()
        self._is_stopped = True

    def _plan(self, wait_ns: int) -> None:
        self._planned += 1
        self._world.after(wait_ns, partial(self._happen, self._planned))

    def _happen(self, planned: int) -> None:
        if planned != self._planned or self._is_stopped or self._loop.is_closed():
            return
        self._world.record(self._loop.name, "thread", self._name)
        self._is_woken = self._is_soon = False
        with self._loop.holding_reports() as self._reports:
            wait_seconds = self._step()
        rest_ns = self._rng.randint(0, self._pace.draw_ns(self._rng))
        self._world.after(rest_ns, partial(self._end, self._planned, wait_seconds))

    def _end(self, planned: int, wait_seconds: float | None) -> None:
        if planned != self._planned or self._is_stopped or self._loop.is_closed():
            return
        self._deliver()
        if self._is_woken:
            self.wake()
        elif wait_seconds is not None:
            self._plan(round(wait_seconds * SECOND_NS) + self._pace.draw_ns(self._rng))

    def _deliver(self) -> None:
        reports, self._reports = self._reports, None
        if reports:
            self._loop.deliver_reports(reports)


def _settle(future: asyncio.Future[object], result: object, error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
