"""Generates unique message ids, one generator per process, as RocketMQ's clients do: address, process, salt, time, counter."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable

from gantry_wire.messages.ids import UniqueIds

_IP_BYTES = 4


class ProcessIds:
    """Generates ids for all producers of this process; restarts after a fork, so that no two processes generate the same."""

    __slots__ = ("next",)

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Generate different ids from now on."""
        rng = random.SystemRandom()
        # The address only tells machines apart: random bytes do that too, without network access.
        ids = UniqueIds(rng.randbytes(_IP_BYTES), os.getpid(), rng.getrandbits(32))
        self.next: Callable[[int], str] = ids.next
        """Return a new id for a message born now (ms since 1970)."""


unique_ids: ProcessIds = ProcessIds()
os.register_at_fork(after_in_child=unique_ids.renew)


def now_ms() -> int:
    """Return the born time of messages created now (ms since 1970)."""
    return time.time_ns() // 1_000_000
