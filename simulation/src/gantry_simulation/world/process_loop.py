"""The event loop of one simulated process. The World runs its turns; tasks, futures and handles are asyncio's own.

Turns follow asyncio's `_run_once`: due timers join the ready callbacks, and all callbacks that are ready at the start run, in the
order of `call_soon`. A turn takes a few drawn microseconds, so that processes overlap in another way with each seed. Time does
not pass within a turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import sys
from asyncio import _set_running_loop  # pyright: ignore[reportPrivateUsage]  # "used by event loops", say its docs
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from functools import partial
from typing import Any, TypeVar, TypeVarTuple, cast

from gantry_simulation.world.clocks import Clocks
from gantry_simulation.world.not_simulated import BareLoop, NotSimulated
from gantry_simulation.world.ports import Jobs, Sockets
from gantry_simulation.world.world import World

TURN_NS, CALLBACK_NS = 2_000, 500
"""Least cost of a turn, and of each of its callbacks. The seed makes all of a turn slower by up to COST_SPREAD times that."""
COST_SPREAD = 9.0
NEVER_NS = 1 << 62
CLOSES_MAX = 16
"""Awaits in the `finally` of one coroutine of a dead process."""
RESOLUTION_SECONDS = 1e-9
"""A timer that is due within this time is due."""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
ExceptionHandler = Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object]


class ProcessLoop(BareLoop):
    """One process's loop. The World's events call `deliver`; nothing blocks."""

    def __init__(
        self,
        world: World,
        name: str,
        clocks: Clocks,
        sockets: Sockets,
        make_threads: Callable[[ProcessLoop], Jobs],
    ) -> None:
        """`sockets` connects and listens, for this process alone; `make_threads` starts the default threads of this loop."""
        self.name = name
        self._world, self._clocks, self._sockets = world, clocks, sockets
        self._jobs = make_threads(self)
        self._rng = world.rng(f"turns of {name}")
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, int, asyncio.TimerHandle]] = []
        self._sequence = 0
        self._tasks: dict[int, tuple[asyncio.Task[Any], Any]] = {}
        self._turn_at_ns = NEVER_NS
        self._planned: set[int] = set()
        """Times for which the World has an event of ours. One that a nearer turn overtook is used again."""
        self._free_at_ns = 0
        self._in_turn = self._paused = self._closed = self._is_buried = False
        self._handler: ExceptionHandler | None = None
        self._signal_handlers: dict[int, asyncio.Handle] = {}
        self._debug = False
        self._held: list[asyncio.Handle] | None = None
        world.at_close(self._bury)

    # What the World does to it

    def deliver(self, callback: Callable[..., object], *arguments: object) -> None:
        """Call back in a turn from now on: input arrived, or a thread has a result."""
        if not self._closed:
            self._ready.append(asyncio.Handle(callback, arguments, self))
            self._plan()

    def signal(self, number: int) -> None:
        """Deliver a signal. Its handler runs in a turn; without one it is an error of the scenario."""
        handle = self._signal_handlers[number]
        if not self._closed:
            self._ready.append(handle)
            self._plan()

    def handles(self, number: int) -> bool:
        """Whether the process has a handler for this signal."""
        return number in self._signal_handlers

    def pause(self) -> None:
        """Run no turn until `resume`. Input and timers wait."""
        self._paused = True

    def resume(self) -> None:
        """Run turns again: first what waited."""
        self._paused = False
        self._plan()

    def drop(self) -> None:
        """End as the kernel ends a process: no callback runs any more, and no task, not even its `finally`."""
        self._closed = True
        self._ready.clear()
        self._timers.clear()
        self._turn_at_ns = NEVER_NS

    def _bury(self) -> None:
        """Close the coroutines that never ended, so that garbage collection closes none amid a later run."""
        self.drop()
        self._is_buried = True
        _set_running_loop(self)  # their `finally` must find no other loop
        try:
            while self._tasks:  # a `finally` may begin another task
                _close(self._tasks.popitem()[1][1])
        finally:
            _set_running_loop(None)

    # Turns

    def _plan(self) -> None:
        if self._in_turn or self._paused or self._closed:
            return
        world = self._world
        when = max(self._free_at_ns, world.now_ns)
        if not self._ready:
            timers = self._timers
            while timers and timers[0][3].cancelled():
                heapq.heappop(timers)
            if not timers:
                return
            when = max(when, self._clocks.world_ns(timers[0][0]))
        if when < self._turn_at_ns:
            self._turn_at_ns = when
            if when not in self._planned:
                self._planned.add(when)
                world.at(when, self._planned_turn)

    def _planned_turn(self) -> None:
        now_ns = self._world.now_ns
        self._planned.discard(now_ns)
        if now_ns != self._turn_at_ns:
            return  # another turn came first, or the process ended
        self._turn_at_ns = NEVER_NS
        if not self._paused:
            self._turn()

    def _turn(self) -> None:
        timers, ready, world = self._timers, self._ready, self._world
        if timers:
            due = self._clocks.steady() + RESOLUTION_SECONDS
            while timers and timers[0][0] <= due:
                handle = heapq.heappop(timers)[3]
                if not handle.cancelled():
                    ready.append(handle)
        count, now_ns = len(ready), world.now_ns
        world.trace.add(now_ns, self.name, "turn", count)
        least_ns = TURN_NS + count * CALLBACK_NS
        self._free_at_ns = now_ns + int(least_ns * (1 + COST_SPREAD * self._rng.random()))
        self._in_turn = True
        _set_running_loop(self)
        sys.set_asyncgen_hooks(None, self._end_generator)
        try:
            for _ in range(count):
                if not ready:
                    break  # a callback dropped this loop
                handle = ready.popleft()
                if not handle.cancelled():
                    handle._run()  # pyright: ignore[reportPrivateUsage]  # as asyncio's loops do  # noqa: SLF001
        finally:
            self._in_turn = False
            _set_running_loop(None)
        self._plan()

    def _end_generator(self, generator: Any) -> None:
        self.call_soon_threadsafe(self.create_task, generator.aclose())

    # asyncio.AbstractEventLoop

    def time(self) -> float:
        """Return the steady clock of this process in seconds."""
        return self._clocks.steady()

    def is_running(self) -> bool:
        """Whether a turn runs now."""
        return self._in_turn

    def is_closed(self) -> bool:
        """Whether the process ended."""
        return self._closed

    def get_debug(self) -> bool:
        """Return the value of `set_debug`. The simulation ignores it."""
        return self._debug

    def set_debug(self, enabled: bool) -> None:
        """Keep the value for `get_debug`."""
        self._debug = enabled

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Call back in the next turn, after everything added before."""
        self._check_open()
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        if not self._in_turn:
            self._plan()
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """As `call_soon`: all simulated threads share one real thread. What a thread's step reports is held until that ends."""
        if self._held is None:
            return self.call_soon(callback, *args, context=context)
        self._check_open()
        handle = asyncio.Handle(callback, args, self, context)
        self._held.append(handle)
        return handle

    @contextlib.contextmanager
    def holding_reports(self) -> Generator[list[asyncio.Handle]]:
        """Hold what a thread reports meanwhile, for `deliver_reports`."""
        self._held = held = list[asyncio.Handle]()
        try:
            yield held
        finally:
            self._held = None

    def deliver_reports(self, reports: list[asyncio.Handle]) -> None:
        """Call back, in a turn from now on, what a thread has reported."""
        if not self._closed:
            self._ready.extend(reports)
            if not self._in_turn:
                self._plan()

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call back after this many seconds of the steady clock."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call back at this time of the steady clock. The seed orders timers of the same time."""
        self._check_open()
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._sequence += 1
        heapq.heappush(self._timers, (when, self._rng.getrandbits(16), self._sequence, handle))
        if not self._in_turn:
            self._plan()
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        """Return a new future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        """Run a coroutine as a task. It is kept until it ends: the end of an unreferenced task would depend on garbage collection."""
        self._check_open()
        named = None if name is None else str(name)
        task = asyncio.Task(cast("Coroutine[Any, Any, T]", coro), loop=self, name=named, context=context)
        self._sequence += 1
        key = self._sequence
        self._tasks[key] = (task, coro)
        task.add_done_callback(partial(self._forget, key))
        return task

    def _forget(self, key: int, _task: asyncio.Task[Any]) -> None:
        self._tasks.pop(key, None)

    def run_in_executor(self, executor: Any, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Run a call in the process's default threads."""
        if executor is not None:
            raise NotSimulated("the simulated event loop has no executors but its default one")
        return self._jobs.run(func, *args)

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:  # fmt: skip
        """Listen; see `Sockets.listen`."""
        return await self._sockets.listen(protocol_factory, host, port, **options)

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:  # fmt: skip
        """Connect; see `Sockets.connect`."""
        return await self._sockets.connect(protocol_factory, host, port, **options)

    async def create_datagram_endpoint(
        self, protocol_factory: Any, local_addr: Any = None, remote_addr: Any = None, **options: Any
    ) -> Any:
        """Open a connected endpoint, whose addresses can be read; see `Sockets.open_datagram`."""
        return await self._sockets.open_datagram(
            protocol_factory, local_addr=local_addr, remote_addr=remote_addr, **options
        )

    async def connect_accepted_socket(self, protocol_factory: Any, sock: Any, **options: Any) -> Any:
        """Serve a connection that the product accepted by itself; see `Sockets.serve`."""
        return await self._sockets.serve(protocol_factory, sock, **options)

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> Any:
        """Resolve a name of the simulated network; see `Sockets.resolve`."""
        return await self._sockets.resolve(host, port, **options)

    def add_signal_handler(self, sig: int, callback: Callable[..., object], *args: Any) -> None:
        """Call back at each `signal` of this number."""
        self._signal_handlers[sig] = asyncio.Handle(callback, args, self)

    def remove_signal_handler(self, sig: int) -> bool:
        """Remove a handler; False if there was none."""
        return self._signal_handlers.pop(sig, None) is not None

    def set_exception_handler(self, handler: ExceptionHandler | None) -> None:
        """Call `handler` too when an error reaches the loop."""
        self._handler = handler

    def get_exception_handler(self) -> ExceptionHandler | None:
        """Return the handler of `set_exception_handler`."""
        return self._handler

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Record a violation: in a correct product no error reaches the loop. Then call the process's own handler."""
        if self._closed:
            return
        error = context.get("exception")
        self._world.violate(self.name, f"{context.get('message', 'error in the loop')}: {error!r}")
        if self._handler is not None:
            self._handler(self, context)

    async def shutdown_asyncgens(self) -> None:
        """Do nothing: a generator is closed when its last reference goes."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - asyncio's name
        """Do nothing: simulated threads need no end."""

    def close(self) -> None:
        """End the loop of a process that returned."""
        self.drop()

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: a cancelled timer leaves the heap when it is due."""

    def _check_open(self) -> None:
        if self._closed and not self._is_buried:
            raise RuntimeError("Event loop is closed")


def _close(coroutine: Any) -> None:
    """End a coroutine of a dead process: its `finally` fails as it may, and where it awaits it is ended again."""
    for _ in range(CLOSES_MAX):
        try:
            coroutine.close()
        except RuntimeError:  # it awaited, or failed so: then it has ended
            continue
        except BaseException:  # noqa: BLE001 - it has ended
            return
        return
