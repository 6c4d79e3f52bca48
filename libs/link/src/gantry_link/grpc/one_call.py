"""What all calls have in common: their connection's part, their deadline, and how they end."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Any, Protocol

from gantry_h2.errors import ErrorCode
from gantry_link.grpc.calls import CallInfo, Methods
from gantry_link.grpc.deadlines import Deadlines
from gantry_link.grpc.framing import Deframer
from gantry_link.grpc.head import Head, refused
from gantry_link.grpc.limits import GrpcLimits
from gantry_link.grpc.status import GrpcError, GrpcStatus, trailers
from gantry_link.http2.connection import Http2Connection

NO_STEP = -1


class Serving(Protocol):
    """The server of a call."""

    @property
    def methods(self) -> Methods:
        """Its methods."""
        ...

    @property
    def limits(self) -> GrpcLimits:
        """Its limits."""
        ...

    @property
    def deadlines(self) -> Deadlines:
        """The deadlines of its calls."""
        ...


class CallsOfConnection(Protocol):
    """The calls of one connection."""

    link: Http2Connection
    server: Serving

    def ended(self, stream: int, /) -> None:
        """Forget a call."""

    def hold(self, more: int, /) -> None:
        """Count bytes of half requests, or release them with a negative number."""


class OneCall(ABC):
    """One call that is open. The client ends it, its deadline, the connection or the service; the first one decides."""

    __slots__ = (
        "_calls", "_deframer", "_half_since", "_held", "_link", "_step", "_work", "begun", "has_ended", "info", "is_over", "stream",
    )  # fmt: skip

    def __init__(self, calls: CallsOfConnection, stream: int, head: Head) -> None:
        link = calls.link
        timeout = head.timeout
        deadline = None if timeout is None else asyncio.get_running_loop().time() + timeout
        self.info = CallInfo(head.headers, deadline, link.peer, link.is_secure, link.user)
        self.stream = stream
        self.begun = False
        """The headers of the answer have left."""
        self.has_ended = False
        """The client has sent everything."""
        self.is_over = False
        self._calls, self._link = calls, link
        self._work: asyncio.Future[Any] | None = None
        self._step = NO_STEP
        self._deframer: Deframer | None = None
        self._held = 0
        self._half_since = 0.0

    # --- events ------------------------------------------------------------------------------------------------

    @abstractmethod
    def take(self, data: bytes, *, is_end: bool) -> None:
        """Take content."""
        ...

    def sent(self) -> None:  # noqa: B027 - most calls have nothing that waits
        """Continue: what waited for the client's windows has left."""

    def late(self) -> None:
        """End it: its deadline has passed."""
        self.fail(GrpcError(GrpcStatus.DEADLINE_EXCEEDED, "the deadline has passed"))

    def cancel(self) -> None:
        """End it without an answer: the client does not wait for one."""
        if not self.is_over:
            self._stop()

    def sweep(self, now: float, seconds_max: float) -> None:
        """End it if one message has been half for too long. `now` is the loop's time."""
        if not self.is_half:
            self._half_since = 0.0
        elif not self._half_since:
            self._half_since = now
        elif now - self._half_since >= seconds_max:
            text = f"a message did not arrive whole within {seconds_max:g} s"
            self.fail(GrpcError(GrpcStatus.DEADLINE_EXCEEDED, text))

    @property
    def is_half(self) -> bool:
        """Whether it waits for the rest of a message."""
        return False

    @property
    def is_running(self) -> bool:
        """Whether a shutdown should wait for it."""
        return True

    # --- ends --------------------------------------------------------------------------------------------------

    def fail(self, error: BaseException) -> None:
        """End it with the status that an exception stands for. Cancels its work."""
        if self.is_over:
            return
        self._stop()
        status, message = _status_of(error, self.info)
        if self._link.is_held_back(self.stream):  # the client may never take the rest
            self._link.reset(self.stream, ErrorCode.CANCEL)
        elif self.begun:
            self._link.finish(self.stream, trailers(status, message))
        else:
            self._link.finish(self.stream, refused(status, message))

    def _stop(self) -> None:
        """End it, and its work: the service's task first, so that it can cancel what it has started before that is woken."""
        if self._work is not None:
            self._work.cancel()
        self._end()

    def _end(self) -> None:
        self.is_over = True
        if self._step != NO_STEP:
            self._calls.server.deadlines.remove(self, self._step)
            self._step = NO_STEP
        if self._held:
            self._hold(0)
        self._calls.ended(self.stream)

    def _watch_deadline(self) -> None:
        if self.info.deadline is not None:
            self._step = self._calls.server.deadlines.add(self, self.info.deadline)

    def _hold(self, size: int) -> None:
        if size != self._held:
            self._calls.hold(size - self._held)
            self._held = size


def _status_of(error: BaseException, info: CallInfo) -> tuple[GrpcStatus, str]:
    if isinstance(error, GrpcError):
        return error.status, error.message
    if isinstance(error, asyncio.CancelledError):
        return GrpcStatus.CANCELLED, "the server cancelled the call"
    path = info.headers.get(b":path", b"").decode("latin-1")
    context = {"message": f"the call {path} of {info.peer} failed", "exception": error}
    asyncio.get_running_loop().call_exception_handler(context)
    return GrpcStatus.INTERNAL, "internal error; see the log of the server"
