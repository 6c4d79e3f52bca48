"""One end of a connection, as the kernel of its host keeps it: bytes in order, in pieces, within a window.

It exists before the process accepts the connection, and the kernel closes it when the process dies.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple, Protocol
from zlib import crc32

from gantry_simulation.network.paths import NETWORK, Paths
from gantry_simulation.world.world import World

READ_BYTES_MAX = 256 * 1024
FIN = b""
"""In the stream: the end of it. Nothing else in a stream is empty."""


class Address(NamedTuple):
    """Host and port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Reader(Protocol):
    """The transport of an endpoint. It is called outside of its process's turns."""

    def readable(self) -> None:
        """Read: bytes, the end of them or a reset have arrived."""
        ...

    def writable(self) -> None:
        """Send more: the endpoint has room."""
        ...


class Endpoint:
    """Sends to its `peer` and receives from it. Both are made together, by `pair`."""

    __slots__ = (
        "_arrives_ns",
        "_flight",
        "_inbox",
        "_is_pumping",
        "_paths",
        "_wants_room",
        "_way",
        "_window",
        "_world",
        "inbox_bytes",
        "is_gone",
        "is_off",
        "is_reset",
        "local",
        "owner",
        "peer",
        "reader",
        "unread_by_peer",
    )

    peer: Endpoint

    def __init__(self, world: World, paths: Paths, local: Address) -> None:
        self._world, self._paths, self.local = world, paths, local
        self._flight: deque[tuple[int, bytes]] = deque()
        self._inbox: deque[bytes] = deque()
        self._is_pumping = self._wants_room = False
        self._arrives_ns = 0
        self._way = ""
        self._window = paths.rng.randint(*paths.conditions.window_bytes)
        self.unread_by_peer: int = 0
        self.inbox_bytes: int = 0
        self.reader: Reader | None = None
        self.is_reset: bool = False
        """The peer's host refused bytes, or the network broke the connection."""
        self.is_gone: bool = False
        """This side closed or died: it takes no bytes."""
        self.is_off: bool = False
        """Its host lost power: it does not even answer."""
        self.owner: object = None
        """The process that has it."""

    def connect(self, peer: Endpoint) -> None:
        """Send to this peer from now on."""
        self.peer = peer
        self._way = f"{self.local}>{peer.local}"

    # What its transport does

    def write(self, data: bytes | memoryview) -> int:
        """Take as many bytes as the window has room for, and return their number. `writable` follows if it took too few."""
        room = self._window - self.unread_by_peer
        taken = min(len(data), room)
        if taken > 0:
            self.unread_by_peer += taken
            self._send(bytes(data[:taken]))
        self._wants_room = taken < len(data)
        return max(taken, 0)

    def finish(self) -> None:
        """Send the end of the stream."""
        self._put(FIN)

    def read(self) -> bytes | None:
        """Return what arrived, at most READ_BYTES_MAX; empty bytes at the end of the stream; None when nothing is there."""
        inbox = self._inbox
        if not inbox:
            return None
        if not inbox[0]:
            return FIN
        parts: list[bytes] = []
        size = 0
        while inbox and inbox[0] and size < READ_BYTES_MAX:
            part = inbox.popleft()
            parts.append(part)
            size += len(part)
        self.inbox_bytes -= size
        self.peer.was_read(size)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    @property
    def has_input(self) -> bool:
        """Whether `read` would return something, or the connection was reset."""
        return bool(self._inbox) or self.is_reset

    def leave(self, *, reset: bool) -> None:
        """Take no more bytes. `reset` tells the peer at once; otherwise it learns when it sends."""
        if not self.is_gone:
            self.is_gone = True
            self.reader = None
            if reset:
                self.answer_reset()

    def lose_power(self) -> None:
        """Vanish: the peer hears nothing."""
        self.is_gone = self.is_off = True
        self.reader = None

    def power_on(self) -> None:
        """Its host runs again and knows nothing of the connection: it answers with a reset."""
        self.is_off = False

    # What the network does to it

    def reset(self) -> None:
        """End the connection with a reset, if this side still has it."""
        if self.is_gone or self.is_reset:
            return
        self.is_reset = True
        self._world.record(NETWORK, "reset", f"{self.peer.local}>{self.local}")
        if self.reader is not None:
            self.reader.readable()

    def was_read(self, size: int) -> None:
        """Make room in the window: the peer's process read bytes. This side learns it after a latency."""
        self.unread_by_peer -= size
        if self._wants_room:
            self._wants_room = False
            self._paths.carry((self.peer.local.host, self.local.host), self._has_room)

    def _has_room(self) -> None:
        if self.reader is not None:
            self.reader.writable()

    def _send(self, data: bytes) -> None:
        conditions, rng = self._paths.conditions, self._paths.rng
        if conditions.cut_chance and len(data) > 1 and rng.random() < conditions.cut_chance:
            count = rng.randint(1, min(conditions.pieces_max, len(data)) - 1)
            cuts = sorted(rng.sample(range(1, len(data)), count))
            for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
                self._put(data[start:end])
        else:
            self._put(data)

    def _put(self, piece: bytes) -> None:
        paths = self._paths
        behind_ns = self._arrives_ns + paths.gap_ns()
        self._arrives_ns = max(behind_ns, paths.now_ns + paths.latency_ns())
        self._flight.append((self._arrives_ns, piece))
        if not self._is_pumping:
            self._pump()

    def _pump(self) -> None:
        self._is_pumping = bool(self._flight)
        if self._flight:
            self._paths.carry_at((self.local.host, self.peer.local.host), self._flight[0][0], self._arrived)

    def _arrived(self) -> None:
        """Deliver the pieces that are due. A partition keeps the first, and so all behind it."""
        now = self._paths.now_ns
        while self._flight and self._flight[0][0] <= now:
            self._deliver(self._flight.popleft()[1])
        self._pump()

    def _deliver(self, piece: bytes) -> None:
        peer = self.peer
        conditions, rng = self._paths.conditions, self._paths.rng
        if peer.is_off:
            return
        if peer.is_gone:
            if piece:
                peer.answer_reset()
            return
        if conditions.loss_chance and rng.random() < conditions.loss_chance:
            self.reset()
            peer.reset()
            return
        self._world.record(NETWORK, "arrives", f"{self._way} {len(piece)} {crc32(piece)}")
        peer.receive(piece)

    def receive(self, piece: bytes) -> None:
        """Keep an arrived piece until the process reads it."""
        self._inbox.append(piece)
        self.inbox_bytes += len(piece)
        if self.reader is not None:
            self.reader.readable()

    def answer_reset(self) -> None:
        """Send a reset to the peer."""
        self._paths.carry((self.local.host, self.peer.local.host), self.peer.reset)


def pair(world: World, paths: Paths, one: Address, other: Address) -> tuple[Endpoint, Endpoint]:
    """Return the two ends of a new connection."""
    ends = Endpoint(world, paths, one), Endpoint(world, paths, other)
    ends[0].connect(ends[1])
    ends[1].connect(ends[0])
    return ends
