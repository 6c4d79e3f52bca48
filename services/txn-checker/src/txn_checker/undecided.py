"""The undecided halves of one store, in memory, rebuilt from the settled cursor by the claim holder.

Pure: `now` is an argument.

Only producers bound its size: about 700 bytes per open half. Bodies stay in the store.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from txn_checker.check_policy import Policy, due_event, due_ms
from txn_checker.half_message import STATES, Event, Half, State, Transaction

RETRY_MS = 2_000
"""Wait before a failed write is retried."""
OUTDATED_DUE_MAX = 1024
"""Times of decided halves that are kept beside one time per undecided half."""

Ranges = Sequence[tuple[int, int]]
"""[first, end), ascending."""


@dataclass(slots=True)
class _Entry:
    half: Half
    state: State
    due_ms: int


class Work(NamedTuple):
    """Due work: halves to check, and halves to park."""

    check: list[Half]
    give_up: list[Half]


class Undecided:
    """Halves by transaction; the newest of several copies counts."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._entries: dict[Transaction, _Entry] = {}
        self._groups: dict[str, dict[Transaction, _Entry]] = {}
        """The same entries by producer group: requests for the checks of many groups are held at once."""
        self._due: list[tuple[int, int, Transaction]] = []
        """(time, offset, transaction); outdated entries are skipped."""
        self.stale: list[Half] = []
        """Undecided copies replaced by a newer one: to be settled without a message."""

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, transaction: Transaction) -> bool:
        return transaction in self._entries

    @property
    def next_due_ms(self) -> int | None:
        """Return the earliest time something is due."""
        return self._due[0][0] if self._due else None

    def seen(self, half: Half) -> None:
        """Take an unsettled half read from its queue."""
        known = self._entries.get(half.transaction)
        if known is not None and known.half.offset >= half.offset:
            if known.half.offset > half.offset:
                self.stale.append(half)
            return
        if known is not None and known.state is State.WAITING:
            self.stale.append(known.half)
        self._put(half)

    def settled(self, cursor: int, ranges: Ranges, *, is_all_seen: bool = False) -> list[Half]:
        """Remove and return what is now decided: below the cursor or in a range.

        A half that is being checked may have been settled by its own next copy. So it is decided only if all halves
        that these ranges leave undecided were seen: the copy would be among them.
        """
        firsts = [first for first, _end in ranges]
        gone = [
            entry.half
            for entry in self._entries.values()
            if (is_all_seen or entry.state is State.WAITING)
            and _is_settled(entry.half.offset, cursor, ranges, firsts)
        ]
        for half in gone:
            self.apply(half, Event.DECIDED)
        return gone

    def due(self, now_ms: int, count_max: int) -> Work:
        """Return what is due at `now`. Each half stays in progress until `copied`, `apply` or `give_back`."""
        work = Work([], [])
        while self._due and self._due[0][0] <= now_ms and len(work.check) + len(work.give_up) < count_max:
            _, offset, transaction = heappop(self._due)
            entry = self._entries.get(transaction)
            if entry is None or entry.half.offset != offset or entry.state is not State.WAITING:
                continue
            event = due_event(self._policy, entry.half, now_ms)
            entry.state = STATES[entry.state][event]
            (work.check if event is Event.CHECK_DUE else work.give_up).append(entry.half)
        return work

    def copied(self, half: Half, offset: int, position: int, message_id: str, now_ms: int) -> Half | None:
        """Record the new copy of a half being checked; None when it was decided meanwhile."""
        entry = self._entries.get(half.transaction)
        if entry is None or entry.half.offset > offset:
            return None
        # The copy itself may have been read before this answer. Any other half was sent while the copy was written.
        if entry.half.offset not in {half.offset, offset}:
            self.stale.append(entry.half)
        entry.state = STATES[State.ASKING][Event.COPIED]
        copy = half._replace(
            offset=offset,
            position=position,
            message_id=message_id,
            stored_ms=now_ms,
            checks=half.checks + 1,
        )
        self._put(copy)
        return copy

    def apply(self, half: Half, event: Event, now_ms: int = 0) -> None:
        """Record the outcome of a half: decided, parked, or failed for now."""
        entry = self._entries.get(half.transaction)
        if entry is None or entry.half.offset != half.offset:
            return
        entry.state = STATES[entry.state][event]
        if entry.state is State.ENDED:
            del self._entries[half.transaction]
            self._leave_group(entry.half)
        elif event is Event.FAILED:
            entry.due_ms = now_ms + RETRY_MS
            self._wait(entry)

    def give_back(self, work: Work, now_ms: int) -> None:
        """Retry unfinished halves later: their write was refused, or stopped before their turn."""
        for half in (*work.check, *work.give_up):
            entry = self._entries.get(half.transaction)
            if entry is not None and entry.state is not State.WAITING:
                self.apply(half, Event.FAILED, now_ms)

    def asked(self, group: str) -> list[Half]:
        """Return the halves of a producer group that were asked about, the oldest first."""
        found = [entry.half for entry in self._groups.get(group, {}).values() if entry.half.checks]
        return sorted(found, key=lambda half: half.begun_ms)

    def all(self) -> Iterable[tuple[Half, int]]:
        """Return every half, and when its next check is due."""
        return [(entry.half, entry.due_ms) for entry in self._entries.values()]

    def forget_stale(self, settled: Iterable[Half]) -> None:
        """Drop older copies that are now settled."""
        gone = {half.offset for half in settled}
        self.stale = [half for half in self.stale if half.offset not in gone]

    def clear(self) -> None:
        """Drop everything: another checker holds the claim."""
        self._entries.clear()
        self._groups.clear()
        self._due.clear()
        self.stale.clear()

    def _put(self, half: Half) -> None:
        due = due_ms(self._policy, half)
        known = self._entries.get(half.transaction)
        if known is not None:
            self._leave_group(known.half)
        entry = self._entries[half.transaction] = _Entry(half, State.WAITING, due)
        self._groups.setdefault(half.group, {})[half.transaction] = entry
        self._wait(entry)

    def _leave_group(self, half: Half) -> None:
        group = self._groups[half.group]
        del group[half.transaction]
        if not group:
            del self._groups[half.group]

    def _wait(self, entry: _Entry) -> None:
        """Note when an entry is due. Its half may have asked for hours: decided ones must not stay for as long."""
        if len(self._due) < 2 * len(self._entries) + OUTDATED_DUE_MAX:
            heappush(self._due, (entry.due_ms, entry.half.offset, entry.half.transaction))
            return
        waiting = [one for one in self._entries.values() if one.state is State.WAITING]
        self._due = [(one.due_ms, one.half.offset, one.half.transaction) for one in waiting]
        heapify(self._due)


def gaps(first: int, end: int, cursor: int, ranges: Ranges) -> list[tuple[int, int]]:
    """Return the undecided parts of [first, end), as ranges."""
    found: list[tuple[int, int]] = []
    at = max(first, cursor)
    for start, stop in ranges:
        if stop <= at:
            continue
        if start >= end:
            break
        if start > at:
            found.append((at, start))
        at = stop
    if at < end:
        found.append((at, end))
    return found


def _is_settled(offset: int, cursor: int, ranges: Ranges, firsts: list[int]) -> bool:
    if offset < cursor:
        return True
    at = bisect_right(firsts, offset) - 1
    return at >= 0 and offset < ranges[at][1]
