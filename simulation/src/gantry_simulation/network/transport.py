"""An asyncio.Transport over an endpoint. Its rules are those of asyncio's selector transports.

`write` passes bytes on at once as far as the connection takes them. `close` sends what is left, then ends; `abort` drops it.
The protocol is called in turns of its process only.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any, cast

from gantry_simulation.network.endpoint import Endpoint
from gantry_simulation.network.fake_socket import FakeSocket
from gantry_simulation.world.process_loop import ProcessLoop

HIGH_BYTES = 64 * 1024
"""asyncio's default limit of the write buffer."""


class Transport(asyncio.Transport):
    """Bytes between one protocol and its peer."""

    def __init__(
        self, loop: ProcessLoop, endpoint: Endpoint, protocol: asyncio.BaseProtocol, sock: FakeSocket
    ) -> None:
        """`start` begins the connection. The transport closes `sock` with it."""
        super().__init__({"peername": sock.getpeername(), "sockname": sock.getsockname(), "socket": sock})
        self._loop, self._endpoint, self._socket = loop, endpoint, sock
        self._protocol = cast("asyncio.Protocol", protocol)
        self._buffer: deque[bytes] = deque()
        self._size = 0
        self._high, self._low = HIGH_BYTES, HIGH_BYTES // 4
        self._protocol_paused = False
        self._reading = False
        self._read_is_due = False
        self._closing = self._lost = self._ends_writing = self._has_seen_end = False

    def start(self, started: asyncio.Future[None] | None = None) -> None:
        """Begin: call `connection_made`, then read. Call it in a turn."""
        self._protocol.connection_made(self)
        self._reading = True
        self._endpoint.reader = self
        self.readable()
        if started is not None and not started.done():
            started.set_result(None)

    # Called by the endpoint

    def readable(self) -> None:
        """Read in a turn, once for all that arrived before it."""
        if not self._read_is_due and not self._lost:
            self._read_is_due = True
            self._loop.deliver(self._read)

    def writable(self) -> None:
        """Send more of the buffer in a turn."""
        self._loop.deliver(self._send_more)

    def _read(self) -> None:
        self._read_is_due = False
        if self._lost:
            return
        if self._endpoint.is_reset:
            self._end(ConnectionResetError(104, "Connection reset by peer"))
            return
        if not self._reading or self._closing or self._has_seen_end:
            return
        data = self._endpoint.read()
        if data is None:
            return
        if data:
            self._call(self._protocol.data_received, data)
            if self._endpoint.has_input:
                self.readable()
        else:
            self._has_seen_end = True
            if not self._call(self._protocol.eof_received):
                self.close()

    def _call(self, method: Any, *arguments: object) -> object:
        try:
            return method(*arguments)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - as asyncio: the error ends the connection
            self._fail(error, f"{method.__name__}() failed")
            return None

    def _fail(self, error: BaseException, message: str) -> None:
        context = {"message": message, "exception": error, "transport": self, "protocol": self._protocol}
        self._loop.call_exception_handler(context)
        self._end(error if isinstance(error, Exception) else None)

    # What asyncio.Transport has for reading

    def is_reading(self) -> bool:
        """Whether arriving bytes go to the protocol."""
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        """Leave arriving bytes in the connection."""
        self._reading = False

    def resume_reading(self) -> None:
        """Read again."""
        if not self._reading and not self._closing:
            self._reading = True
            self.readable()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Pass further bytes to another protocol."""
        self._protocol = cast("asyncio.Protocol", protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol."""
        return self._protocol

    # What it has for writing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes, now or when there is room. Bytes for an ended connection are dropped."""
        if self._ends_writing:
            raise RuntimeError("Cannot call write() after write_eof()")
        if not data or self._lost or self._closing:
            return
        whole = bytes(data)
        taken = 0 if self._buffer else self._endpoint.write(whole)
        if taken < len(whole):
            self._buffer.append(whole[taken:])
            self._size += len(whole) - taken
            if self._size > self._high and not self._protocol_paused:
                self._protocol_paused = True
                self._call(self._protocol.pause_writing)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Send several pieces as one."""
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        """Whether `write_eof` works: yes."""
        return True

    def write_eof(self) -> None:
        """End the stream behind what is written. Reading continues."""
        if not self._ends_writing and not self._closing:
            self._ends_writing = True
            if not self._buffer:
                self._endpoint.finish()

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes that the connection has not taken."""
        return self._size

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Return (low, high) in bytes."""
        return self._low, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set when `pause_writing` (above `high`) and `resume_writing` (at most `low`) are called. Bytes."""
        self._high = (HIGH_BYTES if low is None else 4 * low) if high is None else high
        self._low = self._high // 4 if low is None else low
        if not self._high >= self._low >= 0:
            raise ValueError(f"high ({self._high!r}) must be >= low ({self._low!r}) must be >= 0")
        if self._size > self._high and not self._protocol_paused:
            self._protocol_paused = True
            self._call(self._protocol.pause_writing)

    def _send_more(self) -> None:
        if self._lost:
            return
        while self._buffer:
            first = self._buffer.popleft()
            taken = self._endpoint.write(first)
            self._size -= taken
            if taken < len(first):
                self._buffer.appendleft(first[taken:])
                break
        if self._protocol_paused and self._size <= self._low:
            self._protocol_paused = False
            self._call(self._protocol.resume_writing)
        if not self._buffer and not self._lost:
            if self._closing:
                self._end(None)
            elif self._ends_writing:
                self._endpoint.finish()

    # What it has for the end

    def is_closing(self) -> bool:
        """Whether `close` or `abort` was called, or the connection or its process ended."""
        return self._closing or self._loop.is_closed()

    def close(self) -> None:
        """Read no more, send what is left, then call `connection_lost(None)`."""
        if self._closing:
            return
        self._closing = True
        if not self._buffer:
            self._end(None)

    def abort(self) -> None:
        """Drop what the kernel has not taken and call `connection_lost(None)`."""
        self._buffer.clear()
        self._end(None)

    def _end(self, error: Exception | None) -> None:
        if self._lost:
            return
        self._lost = self._closing = True
        self._buffer.clear()
        self._size = 0
        endpoint = self._endpoint
        is_unclean = self._socket.resets or endpoint.inbox_bytes > 0
        if not is_unclean and not self._ends_writing and not endpoint.is_reset:
            endpoint.finish()
        endpoint.leave(reset=is_unclean and not endpoint.is_reset)
        self._loop.call_soon(self._ended, error)

    def _ended(self, error: Exception | None) -> None:
        self._protocol.connection_lost(error)
        self._socket.close()
