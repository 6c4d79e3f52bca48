"""What the SDK takes from its machine besides network and files: clocks, randomness, the process id.

It is the setting `machine` of every client, so that a simulation can replace it. Timers and threads belong to the event loop.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from typing import Protocol


class Machine(Protocol):
    """A machine, as seen by a client."""

    @property
    def wall_ns(self) -> Callable[[], int]:
        """Wall clock in nanoseconds since 1970. It may step."""
        ...

    @property
    def steady(self) -> Callable[[], float]:
        """Monotonic clock in seconds; its start is arbitrary."""
        ...

    @property
    def rng(self) -> random.Random:
        """Spreads retries and choices. Not secret."""
        ...

    @property
    def secret_bytes(self) -> Callable[[int], bytes]:
        """Returns this many unpredictable bytes."""
        ...

    @property
    def process_id(self) -> int:
        """The id of this process."""
        ...


class _ThisMachine:
    """The machine that this process runs on. A fork has random numbers and a process id of its own."""

    def __init__(self) -> None:
        self.wall_ns: Callable[[], int] = time.time_ns
        self.steady: Callable[[], float] = time.monotonic
        self.rng: random.Random = random.Random()  # noqa: S311 - see Machine.rng
        self.secret_bytes: Callable[[int], bytes] = os.urandom
        self.process_id: int = os.getpid()

    def forked(self) -> None:
        self.rng.seed()
        self.process_id = os.getpid()


_this = _ThisMachine()
THIS_MACHINE: Machine = _this
os.register_at_fork(after_in_child=_this.forked)


def wall_ms(machine: Machine) -> int:
    """Return the wall clock in milliseconds since 1970."""
    return machine.wall_ns() // 1_000_000
