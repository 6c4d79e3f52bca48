"""What a service takes from its machine besides files and the network: clocks, randomness, threads, the process id.

A service gets one `Environment` from `Life` and passes its fields on. A tidy test lists the few files that still use the machine directly.
Timers and `asyncio.to_thread` belong to the event loop.
"""

import asyncio
import contextlib
import os
import queue
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar, TypeVarTuple

from gantry_chassis.machine.addresses import ListeningSocket, listening_socket, reachable_address

BOOT_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Workers(Protocol):
    """A few threads that share one queue of calls."""

    def run(self, function: Callable[[*Ts], T], *arguments: *Ts) -> asyncio.Future[T]:
        """Call `function` in one of the threads; calls begin in the order of `run`. Use it in the loop."""
        ...

    def close(self, *, wait: bool = True) -> None:
        """End the threads once their calls have ended; with `wait`, return after that."""
        ...


Step = Callable[[], float | None]
"""One piece of a thread's work. Returns the seconds until the next step if nothing wakes the thread earlier; None: until it is woken."""


class Thread(Protocol):
    """A thread that works in steps. It is described by its step, not by a function that waits in a lock or a queue.

    A simulation cannot continue a function that waits in a primitive of `threading`, but it can run a step as one event, when it likes
    after a wake. The cost on a machine is that of the queue which such a thread needs anyway.
    """

    @property
    def wake(self) -> Callable[[], None]:
        """Runs a step soon, after the running one; wakes before it begins are one wake. Never blocks. A wake before `start` is kept."""
        ...

    def start(self) -> None:
        """Work from now on."""
        ...

    def stop(self) -> None:
        """End after the running step, and after one more if it was woken. Blocks until then. Does nothing before `start`."""
        ...


MakeThread = Callable[[Step, str], Thread]


@dataclass(frozen=True, slots=True)
class Environment:
    """The machine, as a service sees it."""

    wall_ns: Callable[[], int]
    """Wall clock in nanoseconds since 1970. It may step."""
    steady: Callable[[], float]
    """Monotonic clock in seconds; its start is arbitrary."""
    since_boot: Callable[[], float]
    """Seconds since the machine started, including suspended time."""
    boot_id: str
    """Identifies this boot of the machine; empty where the system has no boot id."""
    rng: random.Random
    """Spreads retries and choices. Not secret."""
    secret_bytes: Callable[[int], bytes]
    """Returns this many unpredictable bytes."""
    process_id: int
    workers: Callable[[int, str], Workers]
    """Starts this many threads with this name prefix."""
    make_thread: MakeThread
    """Makes a daemon thread with this step and name."""
    listening_socket: ListeningSocket
    """Listens on a port, as `addresses.listening_socket` does."""
    reachable_address: Callable[[str], str]
    """Returns where others reach what listens on this address, as `addresses.reachable_address` does."""

    def wall(self) -> float:
        """Return the wall clock in seconds since 1970."""
        return self.wall_ns() / 1e9

    def secret_below(self, end: int) -> int:
        """Return an unpredictable number from 0 to below `end`."""
        return int.from_bytes(self.secret_bytes(16 + (end.bit_length() + 7) // 8)) % end

    def wall_ms(self) -> int:
        """Return the wall clock in milliseconds since 1970."""
        return self.wall_ns() // 1_000_000


def machine() -> Environment:
    """Return this machine and this process."""
    return Environment(
        wall_ns=time.time_ns,
        steady=time.monotonic,
        since_boot=partial(time.clock_gettime, BOOT_CLOCK),
        boot_id=_boot_id(),
        rng=random.Random(),  # noqa: S311 - see Environment.rng
        secret_bytes=os.urandom,
        process_id=os.getpid(),
        workers=_ThreadWorkers,
        make_thread=_StepThread,
        listening_socket=listening_socket,
        reachable_address=reachable_address,
    )


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


class _ThreadWorkers:
    def __init__(self, count: int, name: str) -> None:
        self._executor = ThreadPoolExecutor(count, thread_name_prefix=name)

    def run(self, function: Callable[[*Ts], T], *arguments: *Ts) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._executor, function, *arguments)

    def close(self, *, wait: bool = True) -> None:
        self._executor.shutdown(wait=wait)


class _StepThread:
    def __init__(self, step: Step, name: str) -> None:
        self._step = step
        self._wakes: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.wake: Callable[[], None] = partial(self._wakes.put, True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._wakes.put(False)
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        wakes, step = self._wakes, self._step
        wait_seconds: float | None = None
        while True:
            is_running = True
            with contextlib.suppress(queue.Empty):
                is_running = wakes.get(timeout=wait_seconds)
            if not is_running:
                return  # nothing woke it since the last step
            while is_running:
                try:
                    is_running = wakes.get_nowait()
                except queue.Empty:
                    break
            wait_seconds = step()
            if not is_running:
                return
