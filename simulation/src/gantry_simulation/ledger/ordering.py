"""The order in which a group consumes its queues."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gantry_simulation.world.world import SECOND_NS

SETTLED_NS = 10 * SECOND_NS
"""Longest time from the moment in which a member asks where to begin until its first call."""

Queue = tuple[str, int]
"""Store and queue id, of the one topic."""


@dataclass(slots=True)
class Call:
    """A call of an orderly listener: who called, and whether that life of its process still runs."""

    member: str
    life: int
    is_alive: Callable[[], bool]
    offset: int


class OrderlyQueues:
    """Every queue of the topic has offsets without gaps, from 0 on.

    A call must follow the last successful one of its queue, or repeat from an earlier offset: then it begins a series, whose calls follow
    each other. A series begins nowhere below an offset that was committed long before. One call of a queue runs at a time.
    """

    def __init__(self, now_ns: Callable[[], int], violate: Callable[[str], None]) -> None:
        self.repeats: int = 0
        """Series that began with messages that had been consumed before."""
        self._now_ns, self._violate = now_ns, violate
        self._next: dict[Queue, int] = {}
        self._running: dict[Queue, Call] = {}
        self._last: dict[Queue, tuple[str, int, int]] = {}
        self._committed: list[tuple[int, Queue, int]] = []

    def committed(self, queue: Queue, offset: int) -> None:
        """Record that the store has this offset of the group."""
        self._committed.append((self._now_ns(), queue, offset))

    def forget_committed(self, store: str) -> None:
        """Record that a store has restarted: it may have lost the newest offsets."""
        self._committed = [each for each in self._committed if each[1][0] != store]

    def begin(self, queue: Queue, call: Call) -> None:
        """Record the start of a call."""
        running = self._running.get(queue)
        if running is not None and running.is_alive():
            self._wrong(queue, f"{call.member} is called with {call.offset} while {running.member} runs")
        self._running[queue] = call
        expected = self._next.get(queue, 0)
        member, life, follows = self._last.get(queue, ("", 0, 0))
        if call.offset > expected:
            self._wrong(queue, f"{call.member} is called with {call.offset}, {expected} is skipped")
        elif (member, life) != (call.member, call.life) or call.offset < follows:
            self.repeats += call.offset < expected
            self._check_committed(queue, call)
        elif call.offset > follows:
            self._wrong(queue, f"{call.member} is called with {call.offset} after {follows - 1}")
        self._last[queue] = (call.member, call.life, call.offset)

    def end(self, queue: Queue, call: Call, *, success: bool) -> None:
        """Record the end of a call."""
        if self._running.get(queue) is call:
            del self._running[queue]
        if success:
            self._next[queue] = max(self._next.get(queue, 0), call.offset + 1)
            self._last[queue] = (call.member, call.life, call.offset + 1)

    def _check_committed(self, queue: Queue, call: Call) -> None:
        settled_ns = self._now_ns() - SETTLED_NS
        before = [offset for at_ns, of, offset in self._committed if of == queue and at_ns < settled_ns]
        if call.offset < max(before, default=0):
            self._wrong(queue, f"{call.member} begins with {call.offset}, {max(before)} was committed")

    def _wrong(self, queue: Queue, what: str) -> None:
        self._violate(f"queue {queue[1]} of {queue[0]}: {what}")
