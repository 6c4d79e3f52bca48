"""The HA port: accepts RocketMQ's slaves and sends them the log. Lives in the loop; reads what is not in memory in a thread.

Nothing is acknowledged to a producer because a slave has it: slaves are those of an ASYNC_MASTER. A slave that is slow, wrong or gone changes nothing here.
While no slave is connected, nothing runs.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, cast

from broker_store.ha.frames import ReportStream, head
from broker_store.ha.slave import HaSettings, Slave, SlaveRefused
from broker_store.log.errors import LogError, PositionRemoved
from gantry_chassis.logs.structured import get_logger
from gantry_chassis.machine.addresses import ListeningSocket, joined
from gantry_chassis.machine.environment import Workers

BACKLOG = 16
PIECES_PER_TURN = 4
"""Of one slave. Requests are served before its next ones."""
BUFFER_BYTES = 1024 * 1024
"""Unsent bytes of one slave from which on no more are read for it."""
RATE_SECONDS = 1.0

_log = get_logger()


class LogBytes(Protocol):
    """See `log_bytes.LogBytes`."""

    @property
    def begin(self) -> int:
        """First position that exists."""
        ...

    @property
    def end(self) -> int:
        """End of all that is written here."""
        ...

    @property
    def sendable_end(self) -> int:
        """End of what a slave may get."""
        ...

    def read_nowait(self, position: int, size_max: int) -> bytes | None:
        """Return bytes from a position on, None when that needs a thread."""
        ...

    def read(self, position: int, size_max: int) -> bytes:
        """Return bytes from a position on. Blocks."""
        ...


class Refusals(Protocol):
    """Counts and logs connections that are refused or closed because of their peer."""

    def has_descriptor(self, number: int) -> bool:
        """Whether a connection may use this descriptor number."""
        ...

    def descriptor_refusal(self) -> str:
        """Return why a connection without a descriptor is refused."""
        ...

    def refused(self, reason: str, peer: str, message: str) -> None:
        """Count and report one."""
        ...


class SlaveProgress(NamedTuple):
    """A slave and what it has of the log; positions in bytes."""

    address: str
    reported: int
    sent: int
    bytes_per_second: int


class HaServer:
    """All slaves of one store."""

    def __init__(
        self, settings: HaSettings, refusals: Refusals, thread: Workers, steady: Callable[[], float]
    ) -> None:
        """`thread` reads what is not in the page cache. `steady` returns seconds."""
        self.settings, self.refusals, self.thread, self.steady = settings, refusals, thread, steady
        self.log: LogBytes | None = None
        """None while the log is not open, or does not lead: slaves are closed."""
        self.sent_bytes = 0
        self.links: set[Link] = set()
        self._server: asyncio.Server | None = None
        self._look: asyncio.TimerHandle | None = None

    async def listen(self, listen: ListeningSocket, host: str, port: int) -> int:
        """Open the port and return its number. Connections are closed until `serve`. Raises OSError when it is taken."""
        listener = listen(host, port, backlog=BACKLOG)
        bound = int(listener.getsockname()[1])
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Link(self), sock=listener, backlog=BACKLOG)
        return bound

    def serve(self, log: LogBytes) -> None:
        """Send this log from now on."""
        self.log = log

    @property
    def is_looking(self) -> bool:
        """Whether it looks after slaves now."""
        return self._look is not None

    def progress(self) -> Sequence[SlaveProgress]:
        """Return the slaves that have said what they have."""
        return [
            SlaveProgress(link.address, link.slave.reported, link.slave.sent, link.bytes_per_second)
            for link in self.links
            if link.slave.has_begun
        ]

    async def drain(self, seconds: float) -> None:
        """Return when every slave has the whole log, or after this time."""
        if self._server is not None:
            self._server.close()
        log, until_s = self.log, self.steady() + seconds
        # Reports, the time and the log's end change together: there is no single event to wait for.
        while log is not None and self.steady() < until_s and self._lacks(log.end):  # noqa: ASYNC110
            await asyncio.sleep(self.settings.look_seconds)

    def _lacks(self, end: int) -> bool:
        """Whether a slave lacks something below this position."""
        return any(slave.reported < end for slave in self.progress())

    def close(self) -> None:
        """Accept nothing more, and end all connections. What a slave lacks it gets after the next start."""
        self.log = None
        if self._server is not None:
            self._server.close()
            self._server = None
        for link in list(self.links):
            link.end()
        if self._look is not None:
            self._look.cancel()
            self._look = None
        self.thread.close(wait=False)

    # Called by Link

    def connected(self, link: "Link") -> None:
        """Take a new connection. Raises SlaveRefused."""
        if not self.refusals.has_descriptor(link.descriptor):
            raise SlaveRefused("descriptors", self.refusals.descriptor_refusal())
        if len(self.links) >= self.settings.slaves_max:
            raise SlaveRefused("slaves", f"{self.settings.slaves_max} slaves are connected, the limit")
        self.links.add(link)
        if self._look is None:
            self._look_later()

    def lost(self, link: "Link") -> None:
        """Forget a connection."""
        self.links.discard(link)

    def _look_later(self) -> None:
        self._look = asyncio.get_running_loop().call_later(self.settings.look_seconds, self._look_around)

    def _look_around(self) -> None:
        """Send what was written since the last look, and check the slaves. Ends with the last one."""
        self._look = None
        for link in list(self.links):
            link.look()
        if self.links:
            self._look_later()


class Link(asyncio.Protocol):
    """One connection of a slave."""

    def __init__(self, server: HaServer) -> None:
        self._server = server
        now_s = server.steady()
        self.slave = Slave(server.settings, now_s)
        self.address = ""
        self.bytes_per_second = 0
        self._reports = ReportStream()
        self._transport: asyncio.Transport | None = None
        self._is_full = False
        self._is_reading = False
        self._is_pumping_soon = False
        self._rated_s, self._rated_sent = now_s, 0

    @property
    def descriptor(self) -> int:
        """The descriptor number, or -1."""
        sock = None if self._transport is None else self._transport.get_extra_info("socket")
        return -1 if sock is None else int(sock.fileno())

    @property
    def buffered_bytes(self) -> int:
        """Bytes that the socket has not taken yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection, or close it."""
        opened = self._transport = cast("asyncio.Transport", transport)
        remote = opened.get_extra_info("peername")
        self.address = joined(remote[0], remote[1]) if remote else "?"
        if self._server.log is None:
            opened.abort()  # the store starts, follows or stops: the slave tries again every 5 s
            return
        opened.set_write_buffer_limits(high=BUFFER_BYTES)
        self._guarded(lambda: self._server.connected(self))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's name
        """Forget the connection."""
        self._transport = None
        self._server.lost(self)
        if self.slave.has_begun:
            _log.info(
                "a slave has left", slave=self.address, reported=self.slave.reported, sent=self.slave.sent
            )

    def pause_writing(self) -> None:
        """Send nothing: the slave does not read fast enough."""
        self._is_full = True

    def resume_writing(self) -> None:
        """Send again."""
        self._is_full = False
        self._pump()

    def data_received(self, data: bytes) -> None:
        """Take the reports of the slave, and send what it may get."""
        self._guarded(lambda: self._take(data))
        self._pump()

    def look(self) -> None:
        """Check the slave; send what it may get, or that the master lives."""
        now_s = self._server.steady()
        self._guarded(lambda: self.slave.check(now_s))
        self._rate(now_s)
        self._pump()
        if (
            self._transport is not None
            and not self._is_full
            and not self._is_reading
            and self.slave.is_idle(now_s)
        ):
            self._send(b"", now_s)

    def end(self) -> None:
        """End the connection at once."""
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def _take(self, data: bytes) -> None:
        log, slave = self._server.log, self.slave
        if log is None or self._transport is None:
            return
        had_begun, now_s = slave.has_begun, self._server.steady()
        for position in self._reports.receive(data):
            slave.report(position, log.begin, log.end, now_s)
        if slave.has_begun and not had_begun:
            self._rated_sent = slave.sent
            _log.info(
                "a slave copies the log",
                slave=self.address,
                has=slave.reported,
                begins_at=slave.sent,
                end=log.sendable_end,
            )

    def _pump(self) -> None:
        """Send the next pieces. More follow in a later turn, or when the slave has reported or read some."""
        if self._is_pumping_soon:
            return
        for _ in range(PIECES_PER_TURN):
            if not self._send_next():
                return
        self._is_pumping_soon = True
        asyncio.get_running_loop().call_soon(self._pump_again)

    def _pump_again(self) -> None:
        self._is_pumping_soon = False
        self._pump()

    def _send_next(self) -> bool:
        """Send one piece. False when there is none to send now."""
        log, slave, now_s = self._server.log, self.slave, self._server.steady()
        if log is None or self._transport is None or self._is_full or self._is_reading:
            return False
        if not slave.may_get_piece(now_s) or slave.sent >= log.sendable_end:
            return False
        try:
            data = log.read_nowait(slave.sent, self._server.settings.piece_bytes)
        except (LogError, OSError) as error:
            self._cannot_read(error)
            return False
        if data is None:
            self._read_in_thread(log)
            return False
        self._send(data, now_s)
        return True

    def _send(self, data: bytes, now_s: float) -> None:
        assert self._transport is not None
        position = self.slave.sent
        self.slave.sent_piece(len(data), now_s)
        self._server.sent_bytes += len(data)
        self._transport.writelines([head(position, len(data)), data] if data else [head(position, 0)])

    def _read_in_thread(self, log: LogBytes) -> None:
        self._is_reading = True
        reading = self._server.thread.run(log.read, self.slave.sent, self._server.settings.piece_bytes)
        reading.add_done_callback(self._have_read)

    def _have_read(self, reading: asyncio.Future[bytes]) -> None:
        self._is_reading = False
        if reading.cancelled():
            return
        error = reading.exception()
        if self._transport is None:
            return  # the connection ended meanwhile
        if error is None:
            self._send(reading.result(), self._server.steady())
            self._pump()
        elif isinstance(error, LogError | OSError):
            self._cannot_read(error)
        else:
            raise error

    def _cannot_read(self, error: Exception) -> None:
        if isinstance(error, PositionRemoved):
            refused = SlaveRefused("behind", f"it was too slow: what it needs next was deleted here; {error}")
        else:
            refused = SlaveRefused("unreadable", f"the log cannot be read for it: {error}")
        self._refuse(refused)

    def _guarded(self, step: Callable[[], None]) -> None:
        """Take a step; close the connection if it is refused."""
        try:
            step()
        except SlaveRefused as refused:
            self._refuse(refused)

    def _refuse(self, refused: SlaveRefused) -> None:
        self._server.refusals.refused(refused.word, self.address, f"HA port: {refused}")
        self.end()
        self._server.lost(self)

    def _rate(self, now_s: float) -> None:
        """Measure about once a second how fast the slave gets the log."""
        passed_s = now_s - self._rated_s
        if passed_s >= RATE_SECONDS and self.slave.has_begun:
            self.bytes_per_second = int((self.slave.sent - self._rated_sent) / passed_s)
            self._rated_s, self._rated_sent = now_s, self.slave.sent
