"""One maker of unique message ids a process, as RocketMQ's clients make them: address, process, salt, time, counter."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable

from gantry_wire.ids import UniqueIds

_IP_BYTES = 4


class ProcessIds:
    """Makes ids for all producers of this process; starts anew after a fork, so that no two processes make the same."""

    __slots__ = ("next",)

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Make other ids from now on."""
        chance = random.SystemRandom()
        # The address only tells machines apart: chance does that as well, and needs no look at the network.
        ids = UniqueIds(chance.randbytes(_IP_BYTES), os.getpid(), chance.getrandbits(32))
        self.next: Callable[[int], str] = ids.next
        """Return a new id for a message born now (ms since 1970)."""


unique_ids: ProcessIds = ProcessIds()
os.register_at_fork(after_in_child=unique_ids.renew)


def now_ms() -> int:
    """Return the time messages born now have (ms since 1970)."""
    return time.time_ns() // 1_000_000
