"""What clients sent, what was acknowledged and what was consumed. It lives outside of the processes, so that no fault touches it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from gantry_simulation.world.world import SECOND_NS, World

SETTLED_NS = 10 * SECOND_NS
"""Longest time from the moment in which a member asks where to begin until its first call."""


class Place(NamedTuple):
    """Where a message is. All queues are those of one store."""

    topic: str
    queue_id: int
    offset: int


@dataclass(slots=True)
class Call:
    """A call of an orderly listener: who called, and whether that life of its process still runs."""

    member: str
    life: int
    is_alive: Callable[[], bool]
    offset: int


class Ledger:
    """Records violations in the World: one place with two messages, a message stored twice, a queue out of order."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.acknowledged: dict[str, Place] = {}
        """By the text of the message."""
        self.once: dict[str, Place | None] = {}
        """Messages with an idempotency key, and the place where each was seen."""
        self.forbidden: set[str] = set()
        """Messages that no consumer may see."""
        self.consumed: dict[str, Counter[str]] = {}
        """How often each message was consumed with success, by group."""
        self.failed: int = 0
        """Calls of listeners that failed."""
        self.redelivered: int = 0
        """Messages that were consumed from a retry topic."""
        self.orderly: dict[str, OrderlyQueues] = {}
        """By group."""
        self._texts: dict[Place, str] = {}

    def stored(self, text: str, place: Place) -> None:
        """Record that a message was acknowledged at a place."""
        self._at(text, place)
        self.acknowledged[text] = place

    def delivered(self, group: str, text: str, place: Place) -> None:
        """Record that a listener is called with a message."""
        self._at(text, place)
        if text in self.forbidden:
            self.world.violate(group, f"{text} is delivered, but it was rolled back")

    def succeeded(self, group: str, text: str, place: Place) -> None:
        """Record that a listener consumed a message."""
        self.consumed.setdefault(group, Counter())[text] += 1
        self.redelivered += place.topic.startswith("%RETRY%")

    def missing(self, group: str, topic: str) -> list[str]:
        """Return the acknowledged messages of a topic that the group has not consumed."""
        consumed = self.consumed.get(group, Counter())
        return [
            text for text, place in self.acknowledged.items() if place.topic == topic and not consumed[text]
        ]

    def _at(self, text: str, place: Place) -> None:
        other = self._texts.setdefault(place, text)
        if other != text:
            self.world.violate("ledger", f"{place} has {other} and {text}")
        if text in self.once and not place.topic.startswith("%"):
            before = self.once[text]
            if before is not None and before != place:
                self.world.violate("ledger", f"{text} is stored twice: at {before} and {place}")
            self.once[text] = place


class OrderlyQueues:
    """The order in which a group consumes its queues. Every queue of the topic has offsets without gaps, from 0 on.

    A call must follow the last successful one of its queue, or repeat from an earlier offset: then it begins a series, whose calls follow
    each other. A series begins nowhere below an offset that was committed long before. One call of a queue runs at a time.
    """

    def __init__(self, world: World, group: str) -> None:
        self.repeats: int = 0
        """Series that began with messages that had been consumed before."""
        self._world, self._group = world, group
        self._next: dict[int, int] = {}
        self._running: dict[int, Call] = {}
        self._last: dict[int, tuple[str, int, int]] = {}
        self._committed: list[tuple[int, int, int]] = []

    def committed(self, queue_id: int, offset: int) -> None:
        """Record that the store has this offset of the group."""
        self._committed.append((self._world.now_ns, queue_id, offset))

    def forget_committed(self) -> None:
        """Record that the store has restarted: it may have lost the newest offsets."""
        self._committed.clear()

    def begin(self, queue_id: int, call: Call) -> None:
        """Record the start of a call."""
        running = self._running.get(queue_id)
        if running is not None and running.is_alive():
            self._violate(queue_id, f"{call.member} is called with {call.offset} while {running.member} runs")
        self._running[queue_id] = call
        expected = self._next.get(queue_id, 0)
        member, life, follows = self._last.get(queue_id, ("", 0, 0))
        if call.offset > expected:
            self._violate(queue_id, f"{call.member} is called with {call.offset}, {expected} is skipped")
        elif (member, life) != (call.member, call.life) or call.offset < follows:
            self.repeats += call.offset < expected
            self._check_committed(queue_id, call)
        elif call.offset > follows:
            self._violate(queue_id, f"{call.member} is called with {call.offset} after {follows - 1}")
        self._last[queue_id] = (call.member, call.life, call.offset)

    def end(self, queue_id: int, call: Call, *, success: bool) -> None:
        """Record the end of a call."""
        if self._running.get(queue_id) is call:
            del self._running[queue_id]
        if success:
            self._next[queue_id] = max(self._next.get(queue_id, 0), call.offset + 1)
            self._last[queue_id] = (call.member, call.life, call.offset + 1)

    def _check_committed(self, queue_id: int, call: Call) -> None:
        settled_ns = self._world.now_ns - SETTLED_NS
        before = [offset for at_ns, of, offset in self._committed if of == queue_id and at_ns < settled_ns]
        if call.offset < max(before, default=0):
            self._violate(queue_id, f"{call.member} begins with {call.offset}, {max(before)} was committed")

    def _violate(self, queue_id: int, what: str) -> None:
        self._world.violate(self._group, f"queue {queue_id}: {what}")
