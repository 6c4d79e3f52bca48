"""Repair of damaged records of the own log: whole records of another replica, at the same positions, replace those whose check fails here.

Below the confirm offset all replicas of a group have the same bytes. A replica asks one that has them durably, piece by piece, for whole records from
the damaged one on; `ReplicaLog.repair` checks them, writes those that differ from a whole one here, and syncs. Only a leader's members and a follower's
leader are asked: their logs were compared with this one when their session began.

One repair at a time, a few that wait, and no position twice within AGAIN_MS. Lives in the loop; reads and writes are in a thread.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from broker_store.log.commit_log.scan import RECORD_BYTES_LIMIT
from broker_store.log.errors import DamagedRecord, LogError, LogStopped
from broker_store.replication.frames import PART_BYTES_MAX
from broker_store.replication.messages import HaveBytes, Session, WantBytes
from broker_store.replication.repair_pieces import is_damaged_at
from broker_store.replication.replica_log import Repaired, ReplicaLog
from gantry_chassis.logs.structured import get_logger
from gantry_chassis.machine.environment import Workers

ANSWER_MS = 1000
"""Without an answer for so long the next replica is asked."""
REPAIR_MS = 5000
"""Longest time for a repair: its log may have moved on, or nobody has the bytes."""
AGAIN_MS = 60_000
"""A position that could not be repaired is not tried again earlier."""
WAITING_MAX = 64

_log = get_logger()


@dataclass(frozen=True, slots=True)
class RepairCalls:
    """What repairing calls."""

    sources: Callable[[int], Sequence[str]]
    """Returns the replicas that have the log durably up to above this position, the best one first."""
    send: Callable[[str, WantBytes | HaveBytes], None]
    new_session: Callable[[], Session]
    now_ms: Callable[[], int]
    """Of the steady clock."""
    workers: Workers
    failed: Callable[[Exception], None]
    """Called when the own disk fails."""


class _Bytes(NamedTuple):
    """What another replica asked for."""

    data: bytes
    is_damaged: bool
    """Its first record is damaged."""


@dataclass(slots=True)
class _Repair:
    position: int
    done: asyncio.Future[bool]
    until_ms: int
    session: Session | None = None
    asked: set[str] = field(default_factory=set[str])
    lacking: set[str] = field(default_factory=set[str])
    """Those that answered, and do not have it."""
    peer: str = ""
    asked_ms: int = 0
    is_exact: bool = False
    """The damage, if there is any, is in the record at the position, not behind it."""
    is_known: bool = False
    """It is a part of a hole, whose filling is reported as a whole."""
    start: int = 0
    """Position of the first byte of `data`, a record's start."""
    data: bytes = b""
    is_writing: bool = False


class Repairing:
    """The repairs of one life of a replica."""

    def __init__(self, log: ReplicaLog, calls: RepairCalls) -> None:
        self._log, self._calls = log, calls
        self._waiting: dict[int, _Repair] = {}
        self._failed_ms: dict[int, int] = {}
        self._lost: set[int] = set()
        """Those of `_failed_ms` for which replicas were asked, and each that answered does not have it."""
        self._answering: set[str] = set()
        self._answered: dict[str, int] = {}
        """Where the last answer to a peer ended: it may ask for the rest of a record there."""
        self._is_closed = False
        self.records = 0
        """Records repaired since the start."""

    def want(self, position: int, *, is_exact: bool = False, is_known: bool = False) -> asyncio.Future[bool]:
        """Repair the record at this position, and those behind it that come with it. The result says whether it is whole now.

        `is_exact`: the reader met damage in this record, which another repair may have replaced since; otherwise somewhere in a run of
        records from there on. `is_known`: the caller reports what is replaced.
        """
        known = self._waiting.get(position)
        if known is not None:
            return known.done
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        now = self._calls.now_ms()
        is_bounded = self._log.min_position <= position < self._log.confirm
        is_late = now - self._failed_ms.get(position, now - AGAIN_MS) < AGAIN_MS
        if self._is_closed or not is_bounded or is_late or len(self._waiting) >= WAITING_MAX:
            done.set_result(False)
            return done
        self._waiting[position] = _Repair(
            position, done, now + REPAIR_MS, is_exact=is_exact, is_known=is_known
        )
        self._go_on()
        return done

    def may_come(self, position: int) -> bool:
        """Whether a record that `want` could not repair may be repaired later: no replica has answered that it does not have it, either."""
        return self._log.min_position <= position < self._log.confirm and position not in self._lost

    def tick(self) -> None:
        """Take what readers have met; ask again, or another replica, where no answer came."""
        while self._log.damaged:
            self.want(self._log.damaged.pop(), is_exact=True)
        self._go_on()

    def close(self) -> None:
        """Give up what waits, and repair nothing more."""
        self._is_closed = True
        for repair in list(self._waiting.values()):
            self._end(repair, is_whole=False)

    # --- the replica that needs bytes ----------------------------------------------------------------------

    def _go_on(self) -> None:
        repair = next(iter(self._waiting.values()), None)
        if repair is None or repair.is_writing:
            return
        now = self._calls.now_ms()
        if now > repair.until_ms:
            self._end(repair, is_whole=False)
            self._go_on()
        elif repair.session is None or now - repair.asked_ms > ANSWER_MS:
            self._ask_next(repair)

    def _ask_next(self, repair: _Repair) -> None:
        """Ask a replica that was not asked yet, for the whole of it."""
        others = [peer for peer in self._calls.sources(repair.position) if peer not in repair.asked]
        repair.session = None
        if others:
            repair.peer, repair.start, repair.data = others[0], repair.position, b""
            repair.asked.add(repair.peer)
            self._ask(repair)
        elif repair.asked and repair.asked == repair.lacking:  # nobody's answer is awaited
            self._end(repair, is_whole=False)
            self._go_on()

    def _ask(self, repair: _Repair) -> None:
        repair.session, repair.asked_ms = self._calls.new_session(), self._calls.now_ms()
        at = repair.start + len(repair.data)
        self._calls.send(repair.peer, WantBytes(repair.session, at, PART_BYTES_MAX))

    def received(self, peer: str, have: HaveBytes) -> None:
        """Take the bytes that were asked for. Others change nothing."""
        repair = next(iter(self._waiting.values()), None)
        if repair is None or repair.is_writing or (peer, have.session) != (repair.peer, repair.session):
            return
        if not have.data or have.position != repair.start + len(repair.data):
            repair.lacking.add(peer)
            self._ask_next(repair)
            return
        repair.data += have.data
        repair.is_writing = True
        writing = self._calls.workers.run(self._log.repair, repair.start, repair.data)
        writing.add_done_callback(lambda done: self._have_written(repair, done))

    def _have_written(self, repair: _Repair, done: asyncio.Future[Repaired]) -> None:
        repair.is_writing = False
        if done.cancelled() or repair.done.done():
            return
        error = done.exception()
        if error is None:
            self._judge(repair, done.result())
        elif isinstance(error, LogStopped):
            self._end(repair, is_whole=False)
            self._calls.failed(error)
        elif isinstance(error, DamagedRecord):
            _log.warning(
                "another replica's copy of a damaged record is of no use",
                replica=repair.peer,
                reason=str(error),
            )
            repair.lacking.add(repair.peer)
            self._ask_next(repair)
        elif isinstance(error, LogError | OSError):
            self._end(repair, is_whole=False)
        else:
            raise error
        self._go_on()

    def _judge(self, repair: _Repair, written: Repaired) -> None:
        self.records += written.records
        if written.records:
            if not repair.is_known:
                _log.warning(
                    "damaged records were replaced by those of another replica",
                    replica=repair.peer, position=repair.position, end=written.end, count=written.records,
                )  # fmt: skip
            self._end(repair, is_whole=True)
            for other in [one for at, one in self._waiting.items() if repair.start <= at < written.end]:
                self._end(other, is_whole=True)
            return
        if repair.is_exact and written.end > repair.position:
            self._end(repair, is_whole=True)  # another repair was first
            return
        if written.is_all or written.end - repair.position > RECORD_BYTES_LIMIT:
            self._end(repair, is_whole=written.is_all)  # all of it is whole here: another repair was first
            return
        repair.data = repair.data[written.end - repair.start :]
        repair.start = written.end
        self._ask(repair)

    def _end(self, repair: _Repair, *, is_whole: bool) -> None:
        del self._waiting[repair.position]
        self._lost.discard(repair.position)
        if not is_whole:
            self._failed_ms[repair.position] = self._calls.now_ms()
            if repair.lacking:
                self._lost.add(repair.position)
            while len(self._failed_ms) > WAITING_MAX:
                oldest = next(iter(self._failed_ms))
                del self._failed_ms[oldest]
                self._lost.discard(oldest)
        if not repair.done.done():
            repair.done.set_result(is_whole)

    # --- the replica that has them -------------------------------------------------------------------------

    def asked(self, peer: str, want: WantBytes) -> None:
        """Answer with bytes that are confirmed and durable here, with none where there are none. One answer at a time for each peer.

        A record that is damaged here, too, is repaired from a third replica first: the one that asks has no session with that.
        """
        if peer not in self._answering:
            self._answer(peer, want, is_begin=self._answered.get(peer) != want.position)

    def _answer(self, peer: str, want: WantBytes, *, is_begin: bool) -> None:
        self._answering.add(peer)
        reading = self._calls.workers.run(self._read, want.position, min(want.size, PART_BYTES_MAX), is_begin)

        def read(done: asyncio.Future[_Bytes]) -> None:
            self._answering.discard(peer)
            if done.cancelled():
                return
            error = done.exception()
            if error is None:
                self._have_read(peer, want, done.result())
            elif isinstance(error, LogError | OSError):
                self._send(peer, want, b"")
            else:
                raise error

        reading.add_done_callback(read)

    def _read(self, position: int, size: int, is_begin: bool) -> _Bytes:
        """Read in a thread. `is_begin`: a record begins there; check it."""
        data = self._log.read_confirmed(position, size)
        return _Bytes(data, is_begin and is_damaged_at(data, position))

    def _have_read(self, peer: str, want: WantBytes, found: _Bytes) -> None:
        if not found.is_damaged:
            self._send(peer, want, found.data)
        elif want.position in self._waiting:  # perhaps it asks because this one asked
            self._send(peer, want, b"")
        else:
            self.want(want.position).add_done_callback(lambda done: self._have_repaired(peer, want, done))

    def _have_repaired(self, peer: str, want: WantBytes, done: asyncio.Future[bool]) -> None:
        if not done.result():
            self._send(peer, want, b"")
        elif peer not in self._answering:
            self._answer(peer, want, is_begin=False)

    def _send(self, peer: str, want: WantBytes, data: bytes) -> None:
        self._answered[peer] = want.position + len(data)
        self._calls.send(peer, HaveBytes(want.session, want.position, data))
