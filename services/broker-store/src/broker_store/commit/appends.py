"""Group commit: one write and one flush for everything that arrives in one turn of the loop.

A batch is placed, written, flushed where its topics ask for it, made visible, answered. An entry is
answered only when its topic's promise holds. With flush=sync it is readable only when it is durable: the
batch then stays open while a flush runs, and a little longer while more is expected (`flush_pace.py`).
Never reads a topic's settings or a header.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from broker_store.clocks.store_clock import StoreClock
from broker_store.commit.alone import AloneAnswers
from broker_store.commit.flush_pace import GATHER_S_MAX, FlushPace
from broker_store.commit.message import Entry, Mode
from broker_store.commit.record_writer import RecordWriter
from broker_store.commit.visible.dispatch import Dispatch
from broker_store.log.commit_log.commit_log import CommitLog, LogState
from broker_store.log.errors import DiskFull, LogError, LogStopped, NoDescriptorLeft
from broker_store.ports import CommitMetrics
from broker_store.requests.request_classes import OVERLOAD, RequestClass, waited_too_long
from gantry_chassis.logs.structured import get_logger
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest


def no_room(error: LogError) -> RefusedRequest:
    """Return the refusal when the log has no room. The message is not stored."""
    if isinstance(error, NoDescriptorLeft):
        return no_descriptor_left()
    return disk_full() if isinstance(error, DiskFull) else stopped(str(error))


def disk_full() -> RefusedRequest:
    """Return the refusal when the disk is full. The message is not stored."""
    return RefusedRequest(
        ResponseCode.SERVICE_NOT_AVAILABLE,
        "the disk of this broker is full: nothing was stored, try another broker or free space",
        {"gantryCode": "DISK_FULL"},
    )


def no_descriptor_left() -> RefusedRequest:
    """Return the refusal when the next segment cannot be opened. The message is not stored; a retry may succeed."""
    return RefusedRequest(
        ResponseCode.SYSTEM_BUSY,
        "this broker has too many files open to open its next segment: nothing was stored, try again; "
        "raise its limit of open files (ulimit -n)",
    )


def stopped(reason: str) -> RefusedRequest:
    """Return the refusal when the disk failed earlier. The message is not stored."""
    return RefusedRequest(
        ResponseCode.SERVICE_NOT_AVAILABLE,
        f"this store is stopped ({reason}): nothing was stored, restart it to check its log",
        {"gantryCode": "STORE_STOPPED"},
    )


def unknown() -> RefusedRequest:
    """Return the refusal when the flush failed after the write. Whether the message is stored is unknown."""
    return RefusedRequest(
        ResponseCode.SYSTEM_ERROR,
        "the message was written but its flush failed: whether it is stored is unknown until the store is restarted",
        {"gantryCode": "RESULT_UNKNOWN"},
    )


def too_few_replicas() -> RefusedRequest:
    """Return the refusal when fewer replicas are in sync than an answer promises. The message is not stored; a retry may succeed."""
    return RefusedRequest(
        ResponseCode.SERVICE_NOT_AVAILABLE,
        "fewer replicas of this broker are in sync than min_in_sync: nothing was stored, try again, or start the other replicas",
        {"gantryCode": "TOO_FEW_REPLICAS"},
    )


OPEN_BYTES_MAX = 16 * 1024 * 1024
"""A batch with more body bytes than this is written before the turn ends. Bounds memory, not durability."""
WAITING_BYTES_MAX = 256 * 1024 * 1024
"""Most log bytes that wait for a flush. Above it sends are refused as busy."""
_log = get_logger()
NAMES_SECONDS = 0.05
"""Segments that lost their names are looked for so often while flushes come: what is answered in between may be lost with them."""
AtTurnEnd = Callable[[Callable[[], None]], None]
"""Schedules a callback once at the end of this turn of the loop, however often it is called."""
CallLater = Callable[[float, Callable[[], None]], object]


@dataclass(frozen=True, slots=True)
class CommitCalls:
    """What the group commit calls."""

    at_turn_end: AtTurnEnd
    call_later: CallLater
    """Runs a callback after a delay in seconds (`loop.call_later`)."""
    request_sync: Callable[[], None]
    """Requests a sync of everything written so far; `synced` or `failed` follows."""
    on_disk_full: Callable[[], None]
    """Called when a write fails because the disk is full."""
    metrics: CommitMetrics
    holds_all: bool
    """Whether every entry waits for its sync, whatever its mode: an answer of a replicated store promises that its followers have it."""
    accepts_sends: Callable[[], bool]
    """Whether enough replicas are in sync. Always true of a store without replicas."""
    may_answer_alone: Callable[[], bool] | None
    """Whether a plain send may be answered once this store alone has it. None: never."""


class _Waiting(NamedTuple):
    """Written entries that wait for a flush."""

    start: int
    end: int
    """They are durable when a flush reaches this position."""
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
        calls: CommitCalls,
        sends: RequestClass,
        store_host: bytes,
        flush_timeout_s: float,
        recovered_ms: int,
    ) -> None:
        self.log = log
        self.store_host = store_host
        self.records = RecordWriter(log, store_host)
        self._metrics = calls.metrics
        self._request_sync = calls.request_sync
        self._holds_all, self._accepts_sends, self.alone = (
            calls.holds_all,
            calls.accepts_sends,
            _alone(self.records, calls),
        )
        self._is_accepting = True
        """Whether enough replicas are in sync, as of the first entry of this turn."""
        self._call_later = calls.call_later
        self._on_disk_full = calls.on_disk_full
        self._dispatch = dispatch
        self._clock = clock
        self._at_turn_end = calls.at_turn_end
        self.sends = sends
        sends.measure_wait(self._head_wait_ms)
        self._flush_timeout_s = flush_timeout_s
        self._end_turn_bound = self._end_turn
        self._pace = FlushPace()
        self._names_checked_s = -math.inf
        self._is_timed = False
        self.work = asyncio.Event()
        """Set by every entry, and by retention, which the next checkpoint notes. `look_after_flushes` clears it when nothing is left to flush or to answer."""
        self._turn_s: float | None = None
        """Arrival of the first entry of this turn, s. None before it."""
        self._open: list[Entry] = []
        self._own: list[Entry] = []
        """Entries of the open batch that the store submitted itself: no client can send them again."""
        self._open_bytes = 0
        self._may_hold = True
        """Whether every open entry waits for a flush."""
        self._opened_s = 0.0
        self._placed: list[Entry] = []
        self._waiting: deque[_Waiting] = deque()
        self._waiting_bytes = 0
        self.visible_ms = recovered_ms
        """Store time (ms) of the newest batch that is fully visible; at start, of the newest recovered record."""
        self.batches = 0
        self.syncs = 0
        self.written = 0
        self.refused = 0

    @property
    def pending(self) -> int:
        """Number of entries submitted and not yet visible."""
        return self.sends.in_flight

    @property
    def visible_end(self) -> int:
        """Every record below this position is written and visible."""
        return self._waiting[0].start if self._waiting else self.log.written_end

    @property
    def is_overloaded(self) -> bool:
        """Whether new work must be refused as busy."""
        return self.sends.in_flight >= self.sends.capacity or self._waiting_bytes > WAITING_BYTES_MAX

    @property
    def is_idle(self) -> bool:
        """Whether every submitted entry is answered and as durable as promised."""
        return not (self._open or self._waiting)

    def submit(self, entry: Entry, body_bytes: int = 0) -> None:
        """Add an entry to the batch of this turn. Raises RefusedRequest when the store cannot take it."""
        if self.log.state is not LogState.RUNNING:
            raise stopped(self.log.stop_reason) if self.log.state is LogState.STOPPED else disk_full()
        if self.is_overloaded:
            self.sends.refused_full += 1
            raise RefusedRequest(ResponseCode.SYSTEM_BUSY, OVERLOAD)
        if self._turn_s is None:
            self._begin_turn()
        if not self._is_accepting:
            raise too_few_replicas()
        self._take(entry, body_bytes)

    def enqueue(self, entry: Entry, body_bytes: int = 0) -> None:
        """Add an entry of the store's own. Unlike `submit`, never refuses it for load or lateness."""
        self._own.append(entry)
        self._take(entry, body_bytes)

    def _take(self, entry: Entry, body_bytes: int) -> None:
        if self._turn_s is None:
            self._begin_turn()
        if entry.mode != Mode.SYNC:
            self._may_hold = False
        self._open.append(entry)
        self.sends.in_flight += 1
        self._open_bytes += body_bytes
        if self._open_bytes > OPEN_BYTES_MAX:
            self.flush()

    def extend(self, entry: Entry, body_bytes: int) -> bool:
        """Count one more message for `entry`. False when it is not the newest of the open batch, or the class is full."""
        sends = self.sends
        if not self._open or self._open[-1] is not entry or sends.in_flight >= sends.capacity:
            return False
        if self._turn_s is None:
            self._begin_turn()
        sends.in_flight += 1
        self._open_bytes += body_bytes
        return True

    def place_now(self, entry: Entry) -> None:
        """Add a record that the log requires within the batch being placed: a segment's preamble."""
        entry.place(self.records)
        self.placed(entry)

    def placed(self, entry: Entry) -> None:
        """Add an entry to the batch being placed whose records are placed already."""
        self._placed.append(entry)
        self.sends.in_flight += 1

    def _begin_turn(self) -> None:
        self._turn_s = self._clock.monotonic()
        self._is_accepting = self._accepts_sends()
        self.work.set()
        if not self._open:
            self._opened_s = self._turn_s
        self._at_turn_end(self._end_turn_bound)

    def _end_turn(self) -> None:
        """Write the open batch, unless waiting is better."""
        began_s, self._turn_s = self._turn_s, None
        if began_s is not None:
            waited_ms = int((self._clock.monotonic() - began_s) * 1000)
            if waited_ms > self.sends.wait_ms_max:
                self._refuse_late(waited_ms)
        if self._open and not (self._may_hold and self._is_better_later()):
            self.flush()

    def _is_better_later(self) -> bool:
        now_s = self._clock.monotonic()
        if self._waiting:
            return self._pace.holds(now_s)  # written when the running flush ends
        if not self._pace.gathers(now_s, self.sends.in_flight):
            return False
        if not self._is_timed:  # fires when no further turn would check the time
            self._is_timed = True
            self._call_later(GATHER_S_MAX, self._gathered)
        return True

    def _gathered(self) -> None:
        self._is_timed = False
        self._resume()

    def _resume(self) -> None:
        """Check the open batch again: what it waited for may be over."""
        if self._open and self._turn_s is None:
            self._end_turn()

    def flush(self) -> None:
        """Write the open batch now, even if it could wait."""
        entries = self._take_open()
        if not entries:
            return
        self.records.begin(self._clock.now_ms())
        start = self.log.written_end
        placed = self._place(entries)
        if placed and self._write(placed):
            self.batches += 1
            self.written += messages_of(placed)
            self._after_write(start, placed)

    def _take_open(self) -> list[Entry]:
        entries, self._open, self._open_bytes, self._may_hold = self._open, [], 0, True
        self._own = []
        return entries

    def _refuse_late(self, waited_ms: int) -> None:
        """Refuse the sends of the open batch. The store's own entries stay in it."""
        own = {id(entry) for entry in self._own}
        entries = [entry for entry in self._open if id(entry) not in own]
        self._open = [entry for entry in self._open if id(entry) in own]
        count = messages_of(entries)
        self.sends.refused_late += count
        self._refuse(entries, RefusedRequest(ResponseCode.SYSTEM_BUSY, waited_too_long(waited_ms, count)))

    def _head_wait_ms(self) -> int:
        if self._waiting:
            oldest_s = self._waiting[0].opened_s
        elif self._open:
            oldest_s = self._opened_s
        else:
            return 0
        return int((self._clock.monotonic() - oldest_s) * 1000)

    def _place(self, entries: list[Entry]) -> list[Entry]:
        """Place entries in order. Refuses those that find no room."""
        placed = self._placed
        for number, entry in enumerate(entries):
            try:
                entry.place(self.records)
            except (NoDescriptorLeft, DiskFull, LogStopped) as error:
                self._refuse(entries[number:], no_room(error))
                break
            except LogError as error:
                self._refuse([entry], RefusedRequest(ResponseCode.MESSAGE_ILLEGAL, str(error)))
                continue
            except Exception as error:  # noqa: BLE001 - a bug here; its reservation cannot be undone
                _log.exception("a message could not be placed")
                self.log.stop_for(f"a message could not be placed: {error!r}")
                self._refuse([*placed, *entries[number:]], stopped(self.log.stop_reason))
                placed = []
                break
            placed.append(entry)
        self._placed = []
        return placed

    def _write(self, placed: list[Entry]) -> bool:
        try:
            self.records.write()
        except DiskFull:
            self._refuse(placed, disk_full())
            self._on_disk_full()
            return False
        except LogStopped:
            # The file may hold part of the batch: the next start reads the tail and decides.
            self._refuse(placed, unknown())
            return False
        return True

    def _after_write(self, start: int, placed: list[Entry]) -> None:
        end = self.log.written_end
        now = [] if self._holds_all else [entry for entry in placed if entry.mode == Mode.ASYNC]
        if now:
            is_all = len(now) == len(placed)
            self._make_visible(end, now, self.visible_end if is_all or self._waiting else start)
            self._answer(now, self._opened_s)
            if is_all:
                self.visible_ms = self.records.store_ms
                return
            placed = [entry for entry in placed if entry.mode != Mode.ASYNC]
        for entry in placed:
            if entry.mode == Mode.EARLY and not self._holds_all:
                entry.answer(self.records)
        if not self._waiting:
            self._pace.began(self._clock.monotonic())
        self._waiting_bytes += end - start
        self._waiting.append(_Waiting(start, end, self._opened_s, self.records.store_ms, placed))
        self._request_sync()
        if self.alone is not None:
            self.alone.written(end, placed)

    def synced(self, position: int) -> None:
        """Make visible and answer everything below `position`, which is durable now.

        Called in the loop after each flush.
        """
        self.syncs += 1
        waiting = self._waiting
        entries: list[Entry] = []
        opened_s = 0.0
        while waiting and waiting[0].end <= position:
            batch = waiting.popleft()
            self._waiting_bytes -= batch.end - batch.start
            opened_s = opened_s or batch.opened_s
            entries = entries + batch.entries if entries else batch.entries
            self.visible_ms = max(self.visible_ms, batch.store_ms)
        now_s = self._clock.monotonic()
        try:
            if now_s - self._names_checked_s >= NAMES_SECONDS:
                self._names_checked_s = now_s
                self.log.check_names(position)
            if position > self.log.confirm:  # a replica has noted what its group confirmed
                self.log.set_confirm(position)
        except LogStopped as error:
            self._refuse(entries, unknown())
            self.failed(error)
            return
        if entries:
            self._make_visible(max(position, self.log.visible_end), entries, self.visible_end)
            count = self._answer(entries, opened_s)
            now_s = self._clock.monotonic()
            self._pace.ended(now_s, count, self.sends.in_flight)
            self._metrics.on_flush(int((now_s - opened_s) * 1e6), count)
        if self._open:
            self._at_turn_end(self._end_turn_bound)

    def failed(self, _error: LogStopped) -> None:
        """Refuse the waiting entries as RESULT_UNKNOWN: their flush failed. Called in the loop."""
        while self._waiting:
            self._refuse(self._waiting.popleft().entries, unknown())
        self._resume()

    def answer_late(self) -> None:
        """Answer FLUSH_DISK_TIMEOUT to entries that waited too long, FLUSH_SLAVE_TIMEOUT where only followers lack them.

        They stay in the log and become visible when flushed.
        """
        self._resume()
        latest_s = self._clock.monotonic() - self._flush_timeout_s
        for waiting in self._waiting:
            if waiting.opened_s > latest_s:
                break
            is_here = self._holds_all and waiting.end <= self.log.durable_end
            code = ResponseCode.FLUSH_SLAVE_TIMEOUT if is_here else ResponseCode.FLUSH_DISK_TIMEOUT
            for entry in waiting.entries:
                entry.answer(self.records, code)

    def _make_visible(self, visible_end: int, entries: list[Entry], visible_below: int) -> None:
        self.log.set_visible(visible_end, visible_below)
        self._dispatch.make_visible(entries, visible_below)

    def _answer(self, entries: list[Entry], opened_s: float) -> int:
        """Answer entries that are as durable as promised. Returns how many requests that were."""
        count = messages_of(entries)
        self.sends.in_flight -= count
        for entry in entries:
            entry.answer(self.records)
        self._metrics.put_took_us(int((self._clock.monotonic() - opened_s) * 1e6), count)
        return count

    def _refuse(self, entries: list[Entry], refusal: RefusedRequest) -> None:
        count = messages_of(entries)
        self.sends.in_flight -= count
        self.refused += count
        for entry in entries:
            entry.refuse(refusal)


def _alone(records: RecordWriter, calls: CommitCalls) -> AloneAnswers | None:
    """Return what answers without other replicas, None where nothing does."""
    return None if calls.may_answer_alone is None else AloneAnswers(records, calls.may_answer_alone)


def messages_of(entries: list[Entry]) -> int:
    """Return how many requests these entries answer."""
    return sum([entry.count for entry in entries])
