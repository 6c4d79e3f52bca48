"""Leases of one queue for one group: leases, delays, redelivery, order by key, and the low-water mark.

Every message at or above the low-water mark is in a run, unseen, or done. Done messages are stored nowhere
else.

Pure: callers pass `now` and what they found in the queue, and get runs back. Changes that must be durable
first stay `pending` until `settle`, `put_back` or `withdraw` follows.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush

from broker_store.leases.lease_table.handle_state import HandleState
from broker_store.leases.lease_table.runs import RUN_MESSAGES_MAX, Kind, Run, Runs, lowest_bits, stretches_of
from broker_store.leases.lease_table.stretches import Stretches
from broker_store.leases.lease_table.unseen import Unseen

IN_CARE_MAX = 100_000
"""Most messages of one queue that one group has leased, waiting, due or held. Above it no new messages are read."""
_STALE_TIMERS_MAX = 1024
_NOT_ADOPTED = frozenset({Kind.DEAD, Kind.HELD})
"""A message that is held behind another one of its key is with nobody: the group was set back since it was leased."""

Found = tuple[int, str, int]
"""Offset, key, and how often the message was delivered before it came into this queue."""
Failed = tuple[int, int, int]
"""First offset, count, and number of failed deliveries of these messages."""


class LeaseTable:
    """The leases of one group in one queue."""

    def __init__(self, start: int, *, in_order: bool = False) -> None:
        self.in_order = in_order
        """Whether only one message per key is due at a time.

        Otherwise a key is the topic whose receivers get the message.
        """
        self.begin(start)

    def begin(self, start: int) -> None:
        """Start at an offset: everything from there on is to be delivered, and earlier state is dropped."""
        self.runs = Runs()
        self.unseen = Unseen(start)
        self.failed: list[Failed] = []
        """Leases that expired since this list was last taken. To be logged."""
        self.dead: list[Run] = []
        """Runs that reached the delivery limit and must be settled."""
        self._due: dict[str, list[int]] = {}
        self._timers: list[tuple[int, int]] = []
        self._by_key: dict[str, deque[Run]] = {}

    # --- state ---

    @property
    def low(self) -> int:
        """Everything below is done: the offset to commit."""
        low, lowest = self.unseen.low, self.runs.lowest
        return low if lowest is None or low < lowest else lowest

    def is_timed_out(self, now_ms: int) -> bool:
        """Whether `expire` has anything to do."""
        return bool(self._timers) and self._timers[0][0] <= now_ms

    @property
    def is_full(self) -> bool:
        """Whether no further messages may be read."""
        return self.runs.count >= IN_CARE_MAX

    def has_due(self, route: str = "") -> bool:
        """Whether a message seen before may be delivered now."""
        heap = self._due.get(route)
        while heap:
            if self._is_due(heap[0], route) is not None:
                return True
            heappop(heap)
        return False

    def undone(self) -> Iterator[tuple[int, int]]:
        """Yield the stretches [start, end) of messages that were seen or skipped and are not done, in order."""
        return self.unseen.merged(part for run in self.runs for part in stretches_of(run.first, run.mask))

    def known_attempts(self) -> Iterator[Failed]:
        """Yield the delivery counts of messages that are not done."""
        for offset, attempt in sorted(self.unseen.attempts.items()):
            yield offset, 1, attempt
        for run in self.runs:
            if run.attempt:
                for start, end in stretches_of(run.first, run.mask):
                    yield start, end - start, run.attempt

    # --- reading ---

    def see(self, start: int, end: int, found: Iterable[Found]) -> None:
        """Record the stretch [start, end): `found` are its messages with their keys, all others are skipped as done."""
        self.unseen.saw(start, end)
        attempts = self.unseen.attempts
        run: Run | None = None
        for offset, key, tries in found:
            attempt = max(attempts.pop(offset, 0), tries) if attempts else tries
            place = offset - run.first if run is not None else RUN_MESSAGES_MAX
            if run is None or key or run.key or attempt != run.attempt or place >= RUN_MESSAGES_MAX:
                if run is not None:
                    self._enter(run)
                run = Run(offset, 1, Kind.DUE, attempt, 0, 0, key)
            else:
                run.mask |= 1 << place
        if run is not None:
            self._enter(run)
        self.unseen.forget_attempts(start, end)

    def see_all(self, start: int, count: int) -> None:
        """As `see`, for a stretch in which every message is wanted and has no key."""
        if self.unseen.attempts:
            self.see(start, start + count, ((start + n, "", 0) for n in range(count)))
            return
        end = start + count
        self.unseen.saw(start, end)
        for first in range(start, end, RUN_MESSAGES_MAX):
            size = min(RUN_MESSAGES_MAX, end - first)
            self._enter(Run(first, (1 << size) - 1, Kind.DUE))

    def _enter(self, run: Run) -> None:
        self.runs.add(run)
        if not (self.in_order and run.key):
            self._make_due(run)
            return
        behind = self._by_key.get(run.key)
        if behind is None:
            self._by_key[run.key] = deque((run,))
            self._make_due(run)
        else:
            run.kind = Kind.HELD
            behind.append(run)

    # --- delivery ---

    def take(self, count: int, lease: int, until_ms: int, route: str = "") -> list[Run]:
        """Lease up to `count` due messages, lowest offsets first. Returns their runs, each leased as a whole."""
        taken: list[Run] = []
        heap = self._due.get(route)
        while heap and count > 0:
            run = self._is_due(heappop(heap), route)
            if run is None:
                continue
            size = run.mask.bit_count()
            if size > count:
                (run,) = self._carve(run, lowest_bits(run.mask, count))
                size = count
            run.kind, run.lease, run.time_ms = Kind.LEASED, lease, until_ms
            run.attempt += 1
            self._set_timer(run)
            taken.append(run)
            count -= size
        return taken

    def give_back(self, first: int, mask: int, lease: int) -> None:
        """End a lease that reached no consumer: its messages are due again and count as never delivered."""
        for run, bits in self._leased(first, mask, lease):
            for part in self._carve(run, bits):
                part.attempt -= 1
                part.lease = 0
                self._make_due(part)

    def extend(self, first: int, mask: int, lease: int, until_ms: int) -> None:
        """Make leases end at another time."""
        for run, bits in self._leased(first, mask, lease):
            for part in self._carve(run, bits):
                part.time_ms = until_ms
                self._set_timer(part)

    def handle_state(
        self, offset: int, lease: int, now_ms: int, is_ours: Callable[[int], bool]
    ) -> HandleState:
        """Return the state of the handle of (offset, lease). `is_ours` recognizes leases given since the start."""
        run = self.runs.find(offset)
        if run is not None:
            if run.lease == lease:
                is_pending = run.pending >> (offset - run.first) & 1
                in_time = run.kind is Kind.LEASED and run.time_ms > now_ms
                return HandleState.HELD if is_pending or in_time else HandleState.EXPIRED
            is_untouched = run.lease == 0 and run.kind not in _NOT_ADOPTED
            return HandleState.FORGOTTEN if is_untouched and not is_ours(lease) else HandleState.EXPIRED
        if self.unseen.has(offset):
            return HandleState.EXPIRED if is_ours(lease) else HandleState.FORGOTTEN
        return HandleState.DONE

    def adopt(self, offset: int, lease: int, until_ms: int, key: str = "") -> bool:
        """Adopt a lease that the restart forgot, of a message with this key. False when its key is not free."""
        run = self.runs.find(offset)
        if run is None:
            behind = self._by_key.get(key) if self.in_order and key else None
            if behind and behind[0].first < offset:
                return False
            attempt = self.unseen.attempts.pop(offset, 0)
            self.unseen.cut(offset, offset + 1)
            run = Run(offset, 1, Kind.LEASED, attempt, key=key)
            self.runs.add(run)
            if self.in_order and key:
                self._put_in_front(run)
        else:
            (run,) = self._carve(run, 1 << (offset - run.first))
        run.kind, run.lease, run.time_ms = Kind.LEASED, lease, until_ms
        run.attempt = max(run.attempt, 1)
        self._set_timer(run)
        return True

    # --- settling ---

    def hold_for(self, first: int, mask: int) -> None:
        """Hold messages that are being settled: their leases no longer expire."""
        for run, bits in self._parts(first, mask):
            run.pending |= bits

    def withdraw(self, first: int, mask: int) -> None:
        """Undo `hold_for` when settling failed. Leases that expired meanwhile end now."""
        for run, bits in self._parts(first, mask):
            run.pending &= ~bits
            if run.kind < Kind.DUE:
                self._set_timer(run)

    def settle(self, first: int, mask: int) -> None:
        """Mark messages as done, whatever their state."""
        end = first + mask.bit_length()
        for run, bits in self._parts(first, mask):
            key = run.key
            self.runs.clear(run, bits)
            if key in self._by_key and not self.runs.is_live(run):
                self._leave_key(run)
        unseen = self.unseen
        if unseen.gaps or unseen.next < end:
            for start, stop in stretches_of(first, mask):
                unseen.cut(start, stop)
                unseen.forget_attempts(start, stop)

    def put_back(self, first: int, mask: int, due_ms: int, now_ms: int, attempts_max: int) -> None:
        """Return messages after a durable nack: due again at `due_ms`, or dead."""
        for run, bits in self._parts(first, mask):
            for part in self._carve(run, bits):
                part.pending = 0
                if part.attempt >= attempts_max:
                    self._bury(part)
                elif due_ms <= now_ms:
                    self._make_due(part)
                else:
                    part.kind, part.time_ms = Kind.WAITING, due_ms
                    self._set_timer(part)

    def expire(self, now_ms: int, attempts_max: int) -> bool:
        """End the leases and delays whose time is over. Returns whether anything became due."""
        timers, runs, is_due = self._timers, self.runs, False
        while timers and timers[0][0] <= now_ms:
            time_ms, first = heappop(timers)
            run = runs.at(first)
            if run is None or run.time_ms != time_ms or run.kind > Kind.WAITING:
                continue
            for part in self._carve(run, run.mask & ~run.pending):
                if part.kind is Kind.LEASED:
                    for start, end in stretches_of(part.first, part.mask):
                        self.failed.append((start, end - start, part.attempt))
                    if part.attempt >= attempts_max:
                        self._bury(part)
                        continue
                self._make_due(part)
                is_due = True
        return is_due

    def look_again(self, *, in_order: bool) -> None:
        """Restart with what is not done, as after a restart: leases end, past deliveries count. For a change of order."""
        attempts = {
            first + n: attempt for first, count, attempt in self.known_attempts() for n in range(count)
        }
        gaps, end = Stretches(self.undone()), self.unseen.next
        self.in_order = in_order
        self.begin(end)
        self.unseen.gaps, self.unseen.attempts = gaps, attempts

    def revive(self, run: Run) -> None:
        """Offer a dead letter again that could not be written."""
        if self.runs.is_live(run) and run.kind is Kind.DEAD:
            self.dead.append(run)

    def move_to(self, offset: int) -> None:
        """Continue at another offset. Moving forward settles what lies below; moving back drops all state."""
        if offset < self.low:
            self.begin(offset)
            return
        for run in self.runs.between(0, offset):
            size = min(offset, run.end) - run.first
            self.settle(run.first, run.mask & (1 << size) - 1)
        self.unseen.skip_to(offset)

    # --- internals ---

    def _leased(self, first: int, mask: int, lease: int) -> list[tuple[Run, int]]:
        parts = self._parts(first, mask)
        return [
            (run, bits & ~run.pending)
            for run, bits in parts
            if run.lease == lease and run.kind is Kind.LEASED
        ]

    def _parts(self, first: int, mask: int) -> list[tuple[Run, int]]:
        """Return the runs with any of these messages, each with the bits it holds."""
        run = self.runs.at(first)
        if run is not None and not mask >> run.mask.bit_length():  # the usual case
            bits = run.mask & mask
            return [(run, bits)] if bits else []
        found: list[tuple[Run, int]] = []
        for one in self.runs.between(first, first + mask.bit_length()):
            move = one.first - first
            bits = one.mask & (mask >> move if move >= 0 else mask << -move)
            if bits:
                found.append((one, bits))
        return found

    def _carve(self, run: Run, bits: int) -> list[Run]:
        """Carve, and keep heaps, keys and timers consistent with the pieces."""
        if bits == run.mask or not bits:
            return [run] if bits else []
        carved = self.runs.carve(run, bits)
        for piece in self.runs.between(run.first, run.end):
            if piece.kind is Kind.DUE:
                self._make_due(piece)
            elif piece.kind < Kind.DUE:
                self._set_timer(piece)
        return carved

    def _put_in_front(self, run: Run) -> None:
        """Put a run before all that were read of its key."""
        behind = self._by_key.setdefault(run.key, deque())
        if behind and behind[0].kind is Kind.DUE:
            behind[0].kind = Kind.HELD
        behind.appendleft(run)

    def _leave_key(self, run: Run) -> None:
        """Make the next message of a key due: this one is done."""
        behind = self._by_key[run.key]
        was_first = behind[0] is run
        behind.remove(run)
        if not behind:
            del self._by_key[run.key]
        elif was_first and behind[0].kind is Kind.HELD:
            self._make_due(behind[0])  # one that was leased before the group kept an order stays leased

    def _make_due(self, run: Run) -> None:
        run.kind = Kind.DUE
        route = "" if self.in_order else run.key
        heap = self._due.get(route)
        if heap is None:
            heap = self._due[route] = []
        heappush(heap, run.first)

    def _is_due(self, first: int, route: str) -> Run | None:
        run = self.runs.at(first)
        if run is None or run.kind is not Kind.DUE or (run.key != route and not self.in_order):
            return None
        return run

    def _bury(self, run: Run) -> None:
        run.kind = Kind.DEAD
        self.dead.append(run)

    def _set_timer(self, run: Run) -> None:
        timers = self._timers
        if len(timers) > 2 * len(self.runs) + _STALE_TIMERS_MAX:  # most belong to leases that ended early
            timers = [(one.time_ms, one.first) for one in self.runs if one.kind < Kind.DUE]
            heapify(timers)
            self._timers = timers
        heappush(timers, (run.time_ms, run.first))
