"""One maker of unique message ids a process, as RocketMQ's clients make them: address, process, salt, time, counter."""

from __future__ import annotations

import os
import random
import time

from gantry_wire.ids import UniqueIds

_IP_BYTES = 4


class ProcessIds:
    """Makes ids for all producers of this process; starts anew after a fork, so that no two processes make the same."""

    __slots__ = ("_ids", "_pid")

    def __init__(self) -> None:
        self._renew()

    def next(self, now_ms: int) -> str:
        """Return a new id for a message born now (ms since 1970)."""
        return self._ids.next(now_ms)

    def _renew(self) -> None:
        self._pid = os.getpid()
        chance = random.SystemRandom()
        # The address only tells machines apart: chance does that as well, and needs no look at the network.
        self._ids = UniqueIds(chance.randbytes(_IP_BYTES), self._pid, chance.getrandbits(32))

    def after_fork(self) -> None:
        """Make other ids than the parent."""
        self._renew()


unique_ids = ProcessIds()
os.register_at_fork(after_in_child=unique_ids.after_fork)


def new_id() -> str:
    """Return a new unique id for now."""
    return unique_ids.next(int(time.time() * 1000))
