"""What a service takes from its machine besides files and the network: clocks, randomness, threads, the process id.

A service gets one `Environment` from `Life` and passes its fields on. A tidy test lists the few files that still use the machine directly.
Timers and `asyncio.to_thread` belong to the event loop.
"""

import asyncio
import os
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar, TypeVarTuple

from gantry_chassis.machine.addresses import ListeningSocket, listening_socket

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


class Thread(Protocol):
    """A started thread."""

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end, at most `timeout` seconds."""
        ...


StartThread = Callable[[Callable[[], None], str], Thread]


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
    start_thread: StartThread
    """Starts a daemon thread with this name."""
    listening_socket: ListeningSocket
    """Listens on a port, as `addresses.listening_socket` does."""

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
        start_thread=_start_thread,
        listening_socket=listening_socket,
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


def _start_thread(run: Callable[[], None], name: str) -> Thread:
    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread
