"""A call with one message in each direction."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from gantry_link.grpc.calls import Unary
from gantry_link.grpc.framing import Deframer, framed, only_message
from gantry_link.grpc.head import Head
from gantry_link.grpc.one_call import CallsOfConnection, OneCall
from gantry_link.grpc.status import BEGIN, OK, GrpcError, GrpcStatus


class UnaryCall(OneCall):
    """Gathers the message, and answers with what the handler returns."""

    __slots__ = ("_encoding", "_handler")

    def __init__(self, calls: CallsOfConnection, stream: int, head: Head, handler: Unary) -> None:
        super().__init__(calls, stream, head)
        self._handler, self._encoding = handler, head.encoding

    def take(self, data: bytes, *, is_end: bool) -> None:
        """Take content; the handler gets the message when the client has sent everything."""
        self.has_ended = is_end
        if is_end and self._deframer is None:
            message = only_message(data, self._calls.server.limits.message_bytes_max)
            if message is not None:
                self._answer_message(message)
                return
        try:
            message = self._gathered(data)
        except GrpcError as error:
            self.fail(error)
            return
        if message is not None:
            self._answer_message(message)

    @property
    def is_half(self) -> bool:
        """Whether it waits for the rest of its message."""
        return not self.has_ended

    def _gathered(self, data: bytes) -> bytes | None:
        """Return the message when all has arrived. Raises GrpcError."""
        deframer = self._deframer
        if deframer is None:
            deframer = self._deframer = Deframer(self._calls.server.limits, self._encoding)
        deframer.feed(data)
        if not self.has_ended:
            if len(deframer) > deframer.wanted:
                raise GrpcError(GrpcStatus.INTERNAL, "a call with one message has more behind it")
            self._hold(len(deframer))
            self._link.consumed(self.stream, len(data))
            return None
        message = deframer.next()
        if message is None:
            raise GrpcError(GrpcStatus.INTERNAL, "the call ends before its message does")
        if len(deframer):
            raise GrpcError(GrpcStatus.INTERNAL, "a call with one message has more behind it")
        self._hold(0)
        self._deframer = None
        return message

    def _answer_message(self, message: bytes) -> None:
        try:
            result = self._handler(self.info, message)
            if type(result) is bytes:
                self._answer(result)
            else:
                self._await(result)  # pyright: ignore[reportArgumentType] - bytes are answered
        except Exception as error:  # noqa: BLE001 - one failed call must not affect the others of the connection
            self.fail(error)

    def _await(self, result: Awaitable[bytes]) -> None:
        work = self._work = asyncio.ensure_future(result)
        if work.done():
            self._done(work)
            return
        self._watch_deadline()
        work.add_done_callback(self._done)

    def _done(self, work: asyncio.Future[bytes]) -> None:
        self._work = None  # an exception in it refers to this call: a cycle of references
        if work.cancelled():
            self.fail(asyncio.CancelledError())
            return
        error = work.exception()
        if error is not None:
            self.fail(error)
            return
        try:
            self._answer(work.result())
        except Exception as unusable:  # noqa: BLE001 - what the handler returned is no message
            self.fail(unusable)

    def _answer(self, message: bytes) -> None:
        if self.is_over:
            return
        content = framed(message)
        self._end()
        self._link.answer(self.stream, BEGIN, content, OK)
