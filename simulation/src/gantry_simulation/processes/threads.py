"""Threads of a simulated process. A call is one event: it takes drawn time, and may stall for long."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar, TypeVarTuple

from gantry_simulation.world.process_loop import ProcessLoop
from gantry_simulation.world.world import World

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


@dataclass(frozen=True, slots=True)
class Pace:
    """How long calls in threads take. Ranges are nanoseconds, (least, most)."""

    call_ns: tuple[int, int] = (20_000, 2_000_000)
    stall_chance: float = 0.002
    stall_ns: tuple[int, int] = (50_000_000, 3_000_000_000)


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
            pace, rng = self._pace, self._rng
            is_stalled = rng.random() < pace.stall_chance
            takes_ns = rng.randint(*(pace.stall_ns if is_stalled else pace.call_ns))
            happens_ns = rng.randint(0, takes_ns)
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


def _settle(future: asyncio.Future[object], result: object, error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
