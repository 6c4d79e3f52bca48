"""Group commit: what arrived in one turn of the loop is written together, flushed together, then answered.

Order of a batch: place, write, [flush], appear, answer. Nothing is answered before what its topic promises is true, nothing is
readable before it is durable where flush=sync. Knows no topic and no header.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from broker_store.clock import StoreClock
from broker_store.dispatch import Dispatch
from broker_store.log.commit_log import CommitLog, LogState
from broker_store.log.errors import DiskFull, LogError, LogStopped, NoDescriptorLeft
from broker_store.message import Entry, Mode
from broker_store.requests import OVERLOAD, RequestClass, waited_too_long
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest


def disk_full() -> RefusedRequest:
    """Surely not stored: there is no room."""
    return RefusedRequest(
        ResponseCode.SERVICE_NOT_AVAILABLE,
        "the disk of this broker is full: nothing was stored, try another broker or free space",
        {"gantryCode": "DISK_FULL"},
    )


def no_descriptor_left() -> RefusedRequest:
    """Surely not stored: the next segment could not be opened; a moment later it may."""
    return RefusedRequest(
        ResponseCode.SYSTEM_BUSY,
        "this broker has too many files open to open its next segment: nothing was stored, try again; "
        "raise its limit of open files (ulimit -n)",
    )


def stopped(reason: str) -> RefusedRequest:
    """Surely not stored: the disk failed earlier."""
    return RefusedRequest(
        ResponseCode.SERVICE_NOT_AVAILABLE,
        f"this store is stopped ({reason}): nothing was stored, restart it to have its log checked",
        {"gantryCode": "STORE_STOPPED"},
    )


def unknown() -> RefusedRequest:
    """Perhaps stored: written, but the flush failed."""
    return RefusedRequest(
        ResponseCode.SYSTEM_ERROR,
        "the message was written but its flush failed: whether it is stored is unknown until the store was restarted",
        {"gantryCode": "RESULT_UNKNOWN"},
    )


OPEN_BYTES_MAX = 16 * 1024 * 1024
"""A turn that gathered more body bytes than this is written before it ends: bounds memory, not durability."""


WAITING_BYTES_MAX = 256 * 1024 * 1024
"""Log bytes whose senders wait for a flush; more are refused as busy."""
AtTurnEnd = Callable[[Callable[[], None]], None]
"""Has a callback run once at the end of this turn of the loop, however often it is asked for."""


class CommitFigures(Protocol):
    """Where the group commit counts."""

    def put_took_us(self, us: int, count: int) -> None:
        """`count` entries were answered `us` after the first of them arrived."""
        ...

    def on_flush(self, us: int, batch_count: int) -> None:
        """One flush answered `batch_count` entries."""
        ...


class _Waiting(NamedTuple):
    """Written entries whose flush is awaited."""

    start: int
    end: int
    """Durable when a flush reaches this position."""
    opened_s: float
    store_ms: int
    entries: list[Entry]


class Appends:
    """The only writer of the log while the store serves."""

    def __init__(
        self,
        log: CommitLog,
        dispatch: Dispatch,
        clock: StoreClock,
        at_turn_end: AtTurnEnd,
        sends: RequestClass,
        store_host: bytes,
        flush_timeout_s: float = 5.0,
    ) -> None:
        self.log = log
        self.store_host = store_host
        self.store_ms = 0
        """Store time of the batch being placed."""
        self.figures: CommitFigures | None = None
        self.request_sync: Callable[[], None] = _no_sync_thread
        self.on_disk_full: Callable[[], None] = _nothing
        """Told when a write met the end of the disk."""
        self._dispatch = dispatch
        self._clock = clock
        self._at_turn_end = at_turn_end
        self.sends = sends
        sends.head_wait = self._head_wait_ms
        self._flush_timeout_s = flush_timeout_s
        self._flush = self.flush
        self._open: list[Entry] = []
        self._open_bytes = 0
        self._opened_s = 0.0
        self._placed: list[Entry] = []
        self._waiting: deque[_Waiting] = deque()
        self._waiting_bytes = 0
        self.appeared_ms = 0
        """Store time of the newest batch that is wholly visible."""
        self.batches = 0
        self.syncs = 0
        self.written = 0
        self.refused = 0

    @property
    def pending(self) -> int:
        """Entries submitted and not yet visible."""
        return self.sends.in_flight

    @property
    def appeared_end(self) -> int:
        """Everything below this position is written and visible."""
        return self._waiting[0].start if self._waiting else self.log.written_end

    @property
    def is_crowded(self) -> bool:
        """Whether so much waits that new work is to be refused as busy."""
        return self.sends.in_flight >= self.sends.capacity or self._waiting_bytes > WAITING_BYTES_MAX

    @property
    def is_idle(self) -> bool:
        """Whether everything submitted is durable as promised and answered."""
        return not self._open and not self._waiting

    def submit(self, entry: Entry, body_bytes: int = 0) -> None:
        """Take an entry into this turn's batch. Raises RefusedRequest when the store cannot take it now."""
        if self.log.state is not LogState.RUNNING:
            raise stopped(self.log.stop_reason) if self.log.state is LogState.STOPPED else disk_full()
        if self.is_crowded:
            self.sends.refused_full += 1
            raise RefusedRequest(ResponseCode.SYSTEM_BUSY, OVERLOAD)
        self.enqueue(entry, body_bytes)

    def enqueue(self, entry: Entry, body_bytes: int = 0) -> None:
        """As `submit`, for the store's own records: never refused for load."""
        if not self._open:
            self._opened_s = self._clock.monotonic()
            self._at_turn_end(self._flush)
        self._open.append(entry)
        self.sends.in_flight += 1
        self._open_bytes += body_bytes
        if self._open_bytes > OPEN_BYTES_MAX:
            self.flush()

    def extend(self, entry: Entry, body_bytes: int) -> bool:
        """Let `entry` stand for one more message; False when it is not the newest of the open batch, or there is no room."""
        sends = self.sends
        if not self._open or self._open[-1] is not entry or sends.in_flight >= sends.capacity:
            return False
        sends.in_flight += 1
        self._open_bytes += body_bytes
        return True

    def placed(self, entry: Entry) -> None:
        """Add a record that the log itself asked for in the middle of a batch (a segment's preamble)."""
        self._placed.append(entry)
        self.sends.in_flight += 1

    def flush(self) -> None:
        """Write the open batch; runs at the end of each turn that submitted something."""
        entries, self._open, self._open_bytes = self._open, [], 0
        if not entries:
            return
        waited_ms = int((self._clock.monotonic() - self._opened_s) * 1000)
        if waited_ms > self.sends.wait_ms_max:
            count = messages_of(entries)
            self.sends.refused_late += count
            words = waited_too_long(waited_ms, count)
            self._refuse(entries, RefusedRequest(ResponseCode.SYSTEM_BUSY, words))
            return
        self.store_ms = self._clock.now_ms()
        start = self.log.written_end
        placed = self._place(entries)
        if placed and self._write(placed):
            self.batches += 1
            self.written += messages_of(placed)
            self._after_write(start, placed)

    def _head_wait_ms(self) -> int:
        if self._waiting:
            oldest_s = self._waiting[0].opened_s
        elif self._open:
            oldest_s = self._opened_s
        else:
            return 0
        return int((self._clock.monotonic() - oldest_s) * 1000)

    def _place(self, entries: list[Entry]) -> list[Entry]:
        """Place entries in order; those that find no room are refused, the others go on."""
        placed = self._placed
        for number, entry in enumerate(entries):
            try:
                entry.place(self)
            except NoDescriptorLeft:
                self._refuse(entries[number:], no_descriptor_left())
                break
            except DiskFull:
                self._refuse(entries[number:], disk_full())
                break
            except LogStopped:
                self._refuse(entries[number:], stopped(self.log.stop_reason))
                break
            except LogError as error:
                self._refuse([entry], RefusedRequest(ResponseCode.MESSAGE_ILLEGAL, str(error)))
                continue
            placed.append(entry)
        self._placed = []
        return placed

    def _write(self, placed: list[Entry]) -> bool:
        try:
            self.log.write()
        except DiskFull:
            for entry in reversed(placed):
                entry.take_back()
            self._refuse(placed, disk_full())
            self.on_disk_full()
            return False
        except LogStopped:
            # Part of the batch may lie in the file: the restart that re-reads the tail decides.
            self._refuse(placed, unknown())
            return False
        return True

    def _after_write(self, start: int, placed: list[Entry]) -> None:
        end = self.log.written_end
        now = [entry for entry in placed if entry.mode == Mode.ASYNC]
        if now:
            self._appear(end, now)
            self._answer(now, self._opened_s)
            if len(now) == len(placed):
                self.appeared_ms = self.store_ms
                return
            placed = [entry for entry in placed if entry.mode != Mode.ASYNC]
        for entry in placed:
            if entry.mode == Mode.EARLY:
                entry.answer(self)
        self._waiting_bytes += end - start
        self._waiting.append(_Waiting(start, end, self._opened_s, self.store_ms, placed))
        self.request_sync()

    def synced(self, position: int) -> None:
        """Make visible and answer what lies below `position`: it is durable. Called in the loop after each flush."""
        self.syncs += 1
        waiting = self._waiting
        entries: list[Entry] = []
        opened_s = 0.0
        while waiting and waiting[0].end <= position:
            batch = waiting.popleft()
            self._waiting_bytes -= batch.end - batch.start
            opened_s = opened_s or batch.opened_s
            entries = entries + batch.entries if entries else batch.entries
            self.appeared_ms = batch.store_ms
        try:
            self.log.set_confirm(position)
        except LogStopped as error:
            self._refuse(entries, unknown())
            self.failed(error)
            return
        if entries:
            self._appear(max(position, self.log.visible_end), entries)
            self._answer(entries, opened_s)
            if self.figures is not None:
                took_us = int((self._clock.monotonic() - opened_s) * 1e6)
                self.figures.on_flush(took_us, messages_of(entries))

    def failed(self, _error: LogStopped) -> None:
        """Answer what waited when a flush failed: whether it is stored, nobody knows. Called in the loop."""
        while self._waiting:
            self._refuse(self._waiting.popleft().entries, unknown())

    def answer_late(self) -> None:
        """Answer FLUSH_DISK_TIMEOUT to those that waited too long; they stay in the log and appear when flushed."""
        latest_s = self._clock.monotonic() - self._flush_timeout_s
        for waiting in self._waiting:
            if waiting.opened_s > latest_s:
                break
            for entry in waiting.entries:
                entry.answer(self, ResponseCode.FLUSH_DISK_TIMEOUT)

    def _appear(self, visible_end: int, entries: list[Entry]) -> None:
        self.log.set_visible(visible_end)
        self._dispatch.appear(entries)

    def _answer(self, entries: list[Entry], opened_s: float) -> None:
        count = messages_of(entries)
        self.sends.in_flight -= count
        for entry in entries:
            entry.answer(self)
        if self.figures is not None:
            self.figures.put_took_us(int((self._clock.monotonic() - opened_s) * 1e6), count)

    def _refuse(self, entries: list[Entry], refusal: RefusedRequest) -> None:
        count = messages_of(entries)
        self.sends.in_flight -= count
        self.refused += count
        for entry in entries:
            entry.refuse(refusal)


def messages_of(entries: list[Entry]) -> int:
    """Return how many requests these entries stand for."""
    return sum([entry.count for entry in entries])


def _no_sync_thread() -> None:
    raise AssertionError("appends need a sync thread before they can wait for a flush")


def _nothing() -> None:
    pass
