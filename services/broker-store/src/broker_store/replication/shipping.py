"""The leader's side of copying: ships log bytes to each follower, in order, from the position that a `Ship` order names.

Several shipments are in flight to a follower, of bounded bytes. A report of the follower's end frees the window. What the newest writes left in memory
goes out at once: all sends of a turn are one write of the group commit, one write is one piece, and a piece is one shipment. A follower that is
behind that reads whole runs from the files, in a thread, in large pieces, and throttled, so that it takes neither the loop nor the disk from sends.
What it reads of full segments leaves the page cache, which belongs to consumers. A learner copies a whole log in the same way.

A follower whose position the leader has deleted gets nothing: beats say where the log begins, and it begins again there.

Bytes get lost only with their connection, or because the follower drops them. So shipments are repeated after a loss of the connection, and
when the follower reports for `resend_ms` without progress; never to a follower that is silent, whose connection still holds them.

Lives in the loop. It may stop at any time: a follower that asks again gets everything again.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from broker_store.log.errors import LogError, PositionRemoved
from broker_store.replication.fresh_bytes import Piece
from broker_store.replication.messages import Beat, Session
from broker_store.replication.replica_log import ReplicaLog
from broker_store.replication.steps import Ship
from gantry_chassis.machine.environment import Workers

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ShippingSettings:
    """Bounds of what is on its way to one follower."""

    window_bytes: int = 8 * MIB
    """In flight. A single larger piece goes when nothing else is in flight."""
    shipments_max: int = 256
    """In flight."""
    gather_bytes: int = 256 * 1024
    """Several writes that wait become one shipment up to this size."""
    read_bytes: int = MIB
    """Of one read from the files."""
    read_bytes_per_second: int = 128 * MIB
    """From the files, for one follower. 0: as fast as the follower and the disks are."""
    resend_ms: int = 1000
    stuck_ms: int = 5000
    """Pause after a read that failed."""

    def __post_init__(self) -> None:
        assert 0 < self.gather_bytes <= self.window_bytes
        assert 0 < self.read_bytes <= self.window_bytes
        assert self.shipments_max > 0
        assert self.read_bytes_per_second >= 0


@dataclass(frozen=True, slots=True)
class ShippingCalls:
    """What shipping calls."""

    head: Callable[[Session], Beat]
    """Returns the head of a shipment that leaves now."""
    send: Callable[[str, Beat, Piece], bool]
    """Queues a shipment to a peer. False: there is no connection, or it is full; the next report, tick or write tries again."""
    at_turn_end: Callable[[Callable[[], None]], None]
    """Schedules a callback once at the end of this turn of the loop, however often it is called."""
    call_later: Callable[[float, Callable[[], None]], object]
    """Runs a callback after seconds."""
    now_ms: Callable[[], int]
    """Returns the time of a steady clock."""
    workers: Workers
    """Runs the reads; one thread is enough."""
    on_stuck: Callable[[str, Exception], None]
    """Called with a peer and the error when its bytes cannot be read: damage, a failing disk."""


@dataclass(slots=True)
class _Follower:
    peer: str
    session: Session
    reported: int
    """End that the follower reported."""
    sent: int
    """End of what was shipped."""
    progressed_ms: int
    """When the reported end grew, or the first of what is in flight was shipped."""
    in_flight: deque[tuple[int, int]] = field(default_factory=deque[tuple[int, int]])
    """End and bytes of each shipment."""
    bytes_in_flight: int = 0
    ready: Piece | None = None
    """Read from the files, not shipped yet."""
    is_reading: bool = False
    is_timed: bool = False
    read_from_ms: int = 0
    """No read begins before."""

    def report(self, position: int, now_ms: int, resend_ms: int) -> None:
        """Take the end that the follower reports."""
        if position > self.reported:
            self.reported, self.progressed_ms = position, now_ms
            while self.in_flight and self.in_flight[0][0] <= position:
                self.bytes_in_flight -= self.in_flight.popleft()[1]
            self.sent = max(
                self.sent, position
            )  # what was shipped before the last going back arrived after all
        elif self.in_flight and now_ms - self.progressed_ms >= resend_ms:
            self.go_back()

    def go_back(self) -> None:
        """Count what is in flight as lost."""
        self.in_flight.clear()
        self.bytes_in_flight, self.sent = 0, self.reported

    def shipped(self, piece: Piece, now_ms: int) -> None:
        """Count a shipment as being in flight."""
        if not self.in_flight:
            self.progressed_ms = now_ms
        self.in_flight.append((piece.end, len(piece.data)))
        self.bytes_in_flight += len(piece.data)
        self.sent = piece.end


class Shipping:
    """The shipments of one leader. Its followers are those that the role orders; they are few."""

    def __init__(self, log: ReplicaLog, calls: ShippingCalls, settings: ShippingSettings) -> None:
        self._log, self._calls, self._settings = log, calls, settings
        self._followers: dict[str, _Follower] = {}
        self._pump_bound = self._pump_all

    def order(self, order: Ship) -> None:
        """Ship to this follower from this position on. Another order of the same session reports its end."""
        now = self._calls.now_ms()
        follower = self._followers.get(order.peer)
        if follower is None or follower.session != order.session:
            self._followers[order.peer] = _Follower(
                order.peer, order.session, order.position, order.position, now
            )
        else:
            follower.report(order.position, now, self._settings.resend_ms)
        self._calls.at_turn_end(self._pump_bound)

    def appended(self) -> None:
        """Ship what was written now: it leaves with the other writes of this turn."""
        self._pump_all()

    def tick(self) -> None:
        """Try again what could not be sent. Call it with each beat."""
        self._pump_all()

    def read_again(self) -> None:
        """Try again what could not be read: it is repaired."""
        for follower in self._followers.values():
            follower.read_from_ms, follower.is_timed = self._calls.now_ms(), False
        self._pump_all()

    def lost(self, peer: str) -> None:
        """Count what is in flight to a peer as lost: its connection ended."""
        follower = self._followers.get(peer)
        if follower is not None:
            follower.go_back()

    def behind(self) -> dict[str, int]:
        """Return how many bytes each follower has not reported yet."""
        end = self._log.written_end
        return {peer: max(end - follower.reported, 0) for peer, follower in self._followers.items()}

    def progress(self) -> dict[str, tuple[int, int]]:
        """Return for each follower the end that it has reported, and the end of what was sent to it."""
        return {peer: (follower.reported, follower.sent) for peer, follower in self._followers.items()}

    def _pump_all(self) -> None:
        for follower in self._followers.values():
            self._pump(follower)

    def _pump(self, follower: _Follower) -> None:
        """Ship until the follower has everything, its window is full, or its next bytes have to be read."""
        log = self._log
        while log.min_position <= follower.sent < log.shippable_end and not follower.is_reading:
            piece = follower.ready
            if piece is None or piece.position != follower.sent:
                follower.ready = None
                piece = log.fresh.gather(follower.sent, self._settings.gather_bytes)
            if piece is None:
                self._read(follower)
                return
            if not self._has_room(follower, len(piece.data)):
                return
            if not self._calls.send(follower.peer, self._calls.head(follower.session), piece):
                return
            follower.shipped(piece, self._calls.now_ms())

    def _has_room(self, follower: _Follower, size: int) -> bool:
        settings = self._settings
        if not follower.in_flight:
            return True
        return (
            follower.bytes_in_flight + size <= settings.window_bytes
            and len(follower.in_flight) < settings.shipments_max
        )

    def _read(self, follower: _Follower) -> None:
        """Read the next bytes in a thread, if the follower has room for them and is not throttled."""
        settings, calls = self._settings, self._calls
        if follower.is_timed or not self._has_room(follower, settings.read_bytes):
            return
        wait_ms = follower.read_from_ms - calls.now_ms()
        if wait_ms > 0:
            follower.is_timed = True
            calls.call_later(wait_ms / 1000, lambda: self._end_pause(follower))
            return
        follower.is_reading = True
        reading = calls.workers.run(self._log.read_to_ship, follower.sent, settings.read_bytes)
        reading.add_done_callback(lambda read: self._have_read(follower, read))

    def _end_pause(self, follower: _Follower) -> None:
        follower.is_timed = False
        self._pump_if_current(follower)

    def _have_read(self, follower: _Follower, reading: asyncio.Future[Piece]) -> None:
        follower.is_reading = False
        if reading.cancelled():
            return
        settings, now = self._settings, self._calls.now_ms()
        error = reading.exception()
        if error is None:
            piece = reading.result()
            follower.ready = piece
            pace = settings.read_bytes_per_second
            follower.read_from_ms = now + len(piece.data) * 1000 // pace if pace else now
        elif isinstance(error, PositionRemoved):
            return  # deleted since the read was ordered
        elif isinstance(error, LogError | OSError):
            follower.read_from_ms = now + settings.stuck_ms
            self._calls.on_stuck(follower.peer, error)
        else:
            raise error
        self._pump_if_current(follower)

    def _pump_if_current(self, follower: _Follower) -> None:
        """Ship, unless another session has begun meanwhile."""
        if self._followers.get(follower.peer) is follower:
            self._pump(follower)
