"""Judges the order in which a group receives the messages of each sharding key. Pure."""

from __future__ import annotations


class KeyOrder:
    """What one consumer received and acknowledged. The numbers of a key's messages grow by `step`."""

    def __init__(self, step: int) -> None:
        self._step = step
        self._done: dict[str, int] = {}
        self._perhaps_done: dict[str, int] = {}

    def is_next(self, key: str, number: int) -> bool:
        """Whether a message of a key may be received now: the one behind the last that is done, or was perhaps acknowledged."""
        if self._perhaps_done.get(key) == number - self._step:
            self.done(key, number - self._step)
        return number == self._done.get(key, number - self._step) + self._step

    def done(self, key: str, number: int) -> None:
        """Record the answer that a message is acknowledged."""
        self._done[key] = number
        self._perhaps_done.pop(key, None)

    def perhaps_done(self, key: str, number: int) -> None:
        """Record an acknowledgement that had no answer, and whose repeat found the lease expired.

        The first one may be in the log and take effect later: its broker waits for its replicas, for longer than the lease. Then the message
        is done and the next one of its key follows. Otherwise the message comes again.
        """
        self._perhaps_done[key] = number
