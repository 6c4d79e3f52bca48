"""A call with any number of messages in each direction, served by a task."""

from __future__ import annotations

import asyncio

from gantry_link.grpc.calls import Streaming
from gantry_link.grpc.framing import PREFIX_BYTES, Deframer, framed
from gantry_link.grpc.head import Head
from gantry_link.grpc.one_call import CallsOfConnection, OneCall
from gantry_link.grpc.status import BEGIN, OK, GrpcError, GrpcStatus


class StreamCall(OneCall):
    """Implements `gantry_link.grpc.calls.Stream`. Messages are cut and unpacked when the service receives them, so that the client's windows bound what is held."""

    __slots__ = ("_arrival", "_content", "_room", "_unreturned")

    def __init__(self, calls: CallsOfConnection, stream: int, head: Head) -> None:
        super().__init__(calls, stream, head)
        self._content = Deframer(calls.server.limits, head.encoding)
        self._unreturned = 0
        """Bytes that arrived, and that the client may not send again yet."""
        self._arrival: asyncio.Future[None] | None = None
        """`receive` waits for it."""
        self._room: list[asyncio.Future[None]] = []
        """`send` waits for these."""

    def start(self, handler: Streaming) -> None:
        """Start the task that serves it."""
        try:
            work = self._work = asyncio.ensure_future(handler(self))
        except Exception as error:  # noqa: BLE001 - one failed call must not affect the others of the connection
            self.fail(error)
            return
        self._watch_deadline()
        work.add_done_callback(self._done)

    # --- for the service ---------------------------------------------------------------------------------------

    async def receive(self) -> bytes | None:
        """Return the client's next message; None after its last one. Raises GrpcError."""
        while True:
            message = self._content.next()
            if message is not None:
                self._return(len(message) + PREFIX_BYTES)
                self._hold(len(self._content))
                return message
            if self.has_ended:
                if len(self._content):
                    raise GrpcError(GrpcStatus.INTERNAL, "the call ends within a message")
                return None
            self._return(self._unreturned)
            self._arrival = asyncio.get_running_loop().create_future()
            try:
                await self._arrival
            finally:
                self._arrival = None

    async def send(self, message: bytes) -> None:
        """Send a message; return when it has left. Raises GrpcError after the end of the call."""
        content = framed(message)
        await self._writable()
        if not self.begun:
            self.begun = True
            self._link.begin(self.stream, BEGIN)
        self._link.send(self.stream, content)
        await self._writable()

    # --- events ------------------------------------------------------------------------------------------------

    def take(self, data: bytes, *, is_end: bool) -> None:
        """Take content for `receive`."""
        self.has_ended = is_end
        self._unreturned += len(data)
        try:
            self._content.feed(data)
        except GrpcError as error:
            self.fail(error)
            return
        self._hold(len(self._content))
        arrival = self._arrival
        if arrival is not None and not arrival.done():
            if len(self._content) >= self._content.wanted or is_end:
                arrival.set_result(None)
            else:
                self._return(self._unreturned)

    def sent(self) -> None:
        """Let the senders continue: the windows, or the socket, have room."""
        waiting, self._room = self._room, []
        for one in waiting:
            if not one.done():
                one.set_result(None)

    @property
    def is_half(self) -> bool:
        """Whether `receive` waits for the rest of a message."""
        return self._arrival is not None and len(self._content) > 0

    @property
    def is_running(self) -> bool:
        """Whether a shutdown should wait for it: not if it may last for ever, as the client has not ended its side, or set no deadline."""
        return self.has_ended and self.info.deadline is not None

    # --- inside ------------------------------------------------------------------------------------------------

    async def _writable(self) -> None:
        while not self.is_over and self._link.is_blocked(self.stream):
            room = asyncio.get_running_loop().create_future()
            self._room.append(room)
            await room
        if self.is_over:
            raise GrpcError(GrpcStatus.CANCELLED, "the call is over")

    def _return(self, size: int) -> None:
        size = min(size, self._unreturned)
        if size:
            self._unreturned -= size
            self._link.consumed(self.stream, size)

    def _end(self) -> None:
        super()._end()
        self.sent()

    def _done(self, work: asyncio.Future[None]) -> None:
        self._work = None  # an exception in it refers to this call: a cycle of references
        if self.is_over:
            if not work.cancelled():
                work.exception()  # looked at: the call ended before
            return
        error = asyncio.CancelledError() if work.cancelled() else work.exception()
        if error is not None:
            self.fail(error)
            return
        self._end()
        if not self.begun:
            self._link.begin(self.stream, BEGIN)
        self._link.finish(self.stream, OK)
