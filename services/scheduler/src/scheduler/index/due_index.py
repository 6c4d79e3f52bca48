"""Keeps the messages due next in memory: the near end of one due queue. Pure: `now` is an argument, in ms.

Every waiting message is in exactly one place. *Near*: in this index. *In flight*: returned by `take_due` and not yet
`decided` or `put_back`. *Far*: kept by the caller because `arm` returned False, until `loaded` brings it. Each due
queue has its own clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import NamedTuple

from scheduler.index.entries import COPIES_MAX, Entry

NEAR_MAX = 200_000
LOAD_MAX = 20_000
FAILURES_MAX = 10_000
"""Failed messages whose attempts are counted for lists. Others are retried too."""
HORIZON_MS = 20_000
SHORT_HORIZON_MS = 1000
"""Horizon of the messages in memory when there are too many."""


class Load(NamedTuple):
    """A load of far messages: at most `count_max` messages due by `until_ms`, the earliest first."""

    until_ms: int
    count_max: int


class Failure(NamedTuple):
    """The failure history of one message."""

    attempts: int
    error: str


class DueIndex:
    """Messages of one due queue that are due soon or being settled."""

    def __init__(
        self, *, horizon_ms: int = HORIZON_MS, near_max: int = NEAR_MAX, load_max: int = LOAD_MAX
    ) -> None:
        self.near: dict[int, Entry] = {}
        self.in_flight: dict[int, Entry] = {}
        self.failures: dict[int, Failure] = {}
        self.far_count = 0
        """Messages the caller keeps. It reports those it drops through `far_removed`."""
        self._heap: list[tuple[int, int]] = []
        self._ids: dict[bytes, tuple[int, ...]] = {}
        self._horizon_ms, self._near_max, self._load_max = horizon_ms, near_max, load_max
        self._edge_ms = -1
        """Messages due after this go far."""
        self._far_before_edge = False
        self._is_loading = False

    def __len__(self) -> int:
        return len(self.near) + len(self.in_flight) + self.far_count

    @property
    def is_full(self) -> bool:
        """Whether reading should pause: even the short horizon holds too many messages."""
        return len(self.near) >= 2 * self._near_max

    @property
    def next_ms(self) -> int | None:
        """When the next near message is due or retried; None when there is none."""
        heap, near = self._heap, self.near
        while heap and heap[0][1] not in near:
            heappop(heap)
        return heap[0][0] if heap else None

    def arm(self, entry: Entry, now_ms: float) -> bool:
        """Take a message. Returns False when it is due so late that the caller must keep it far."""
        return not self.arm_all((entry,), now_ms)

    def arm_all(self, entries: Iterable[Entry], now_ms: float) -> list[Entry]:
        """Arm each message; return those the caller must keep far."""
        far: list[Entry] = []
        near, edge_ms = self.near, self._edge(now_ms)
        for entry in entries:
            if entry.due_ms > edge_ms:
                far.append(entry)
                continue
            self._put(entry, entry.due_ms)
            if len(near) >= self._near_max:
                edge_ms = self._edge(now_ms)
        self.far_count += len(far)
        return far

    def take_due(self, now_ms: float, count_max: int) -> list[Entry]:
        """Return what is due, the earliest first. Messages stay in flight until `decided` or `put_back`."""
        taken: list[Entry] = []
        heap, near, in_flight = self._heap, self.near, self.in_flight
        while heap and heap[0][0] <= now_ms and len(taken) < count_max:
            entry = near.pop(heappop(heap)[1], None)
            if entry is not None:
                in_flight[entry.key] = entry
                taken.append(entry)
        return taken

    def put_back(self, key: int, at_ms: int, error: str = "") -> Entry | None:
        """Retry an in-flight message at a later time; with an error, count a failed attempt.

        Returns the message when that time is far: the caller keeps it, to be loaded at `at_ms`.
        """
        entry = self.in_flight.pop(key, None)
        if entry is None:
            return None
        known = self.failures.get(key)
        if error and (known is not None or len(self.failures) < FAILURES_MAX):
            self.failures[key] = Failure(known.attempts + 1 if known else 1, error)
        if at_ms > self._edge_ms:
            self._forget_id(entry)
            self.far_count += 1
            return entry
        self.near[key] = entry
        heappush(self._heap, (at_ms, key))
        return None

    def decided(self, key: int) -> Entry | None:
        """Forget a settled message. Returns it when it was here."""
        entry = self.in_flight.pop(key, None) or self.near.pop(key, None)
        self.failures.pop(key, None)
        if entry is not None:
            self._forget_id(entry)
        return entry

    def find(self, uniq: bytes) -> list[Entry]:
        """Return the near and in-flight messages with a unique key."""
        found = (self.near.get(key) or self.in_flight.get(key) for key in self._ids.get(uniq, ()))
        return [entry for entry in found if entry is not None]

    def far_added(self, count: int) -> None:
        """Count messages the caller already keeps."""
        self.far_count += count

    def far_removed(self, count: int) -> None:
        """Count messages the caller no longer keeps."""
        self.far_count -= count
        assert self.far_count >= 0

    def wants(self, now_ms: float) -> Load | None:
        """Return what to load from far, if anything. The caller answers with `loaded`."""
        if self._is_loading or not self.far_count or len(self.near) > self._near_max // 2:
            return None
        if not self._far_before_edge and self._edge_ms - now_ms > self._horizon_ms / 2:
            return None
        self._edge_ms = max(self._edge_ms, int(now_ms) + self._horizon_ms)
        self._is_loading = True
        return Load(self._edge_ms, self._load_max)

    def loaded(self, entries: Iterable[tuple[int, Entry]], asked_count: int) -> None:
        """Take loaded messages, each with the time to try it. The caller no longer keeps them."""
        count = 0
        for at_ms, entry in entries:
            self._put(entry, at_ms)
            count += 1
        self.far_count -= count
        self._is_loading = False
        self._far_before_edge = count >= asked_count

    def _edge(self, now_ms: float) -> int:
        """Return where far begins. It moves nearer when too much is here; what lies behind it is then loaded again."""
        if len(self.near) >= self._near_max and self._edge_ms > now_ms + SHORT_HORIZON_MS:
            self._edge_ms = int(now_ms) + SHORT_HORIZON_MS
        elif not self.far_count and len(self.near) < self._near_max // 2:
            self._edge_ms = max(self._edge_ms, int(now_ms) + self._horizon_ms)
        return self._edge_ms

    def _put(self, entry: Entry, at_ms: int) -> None:
        key = entry.key
        if key in self.near or key in self.in_flight:
            return
        self.near[key] = entry
        heappush(self._heap, (at_ms, key))
        same = self._ids.get(entry.uniq, ())
        if entry.uniq and len(same) < COPIES_MAX:
            self._ids[entry.uniq] = (*same, key)

    def _forget_id(self, entry: Entry) -> None:
        same = self._ids.get(entry.uniq, ())
        left = () if same == (entry.key,) else tuple(key for key in same if key != entry.key)
        if left:
            self._ids[entry.uniq] = left
        else:
            self._ids.pop(entry.uniq, None)
