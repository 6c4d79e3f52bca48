"""From the bytes of a call to its handler, and back.

Whatever happens, the call ends with gRPC's status OK: an error is the status in the response, since clients take a gRPC error for a lost
connection, and repeat the call.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, NamedTuple, Protocol

from google.protobuf.message import DecodeError

from gantry_chassis.logs.structured import get_logger
from gantry_link.grpc.calls import CallInfo, Stream, Streaming, Unary
from gateway.grpc.clients import Clients
from gateway.grpc.codes import Refused, status, status_of
from gateway.grpc.proto import METHODS
from gateway.grpc.proto.bounded import TooManyFields, parse
from gateway.grpc.proto.common import Status
from gateway.grpc.proto.enums import Code
from gateway.http.metrics import CallCounts
from gateway.http.problems import problem_of, rate_limited
from gateway.ports.stores import RateLimits

CLIENT_ID: Final = b"x-mq-client-id"
LANGUAGE: Final = b"x-mq-language"
VERSION: Final = b"x-mq-client-version"
NAMESPACE: Final = b"x-mq-namespace"
CLIENT_ID_CHARS_MAX: Final = 255
"""The id of each client is kept for minutes."""

_log = get_logger()


class Caller(NamedTuple):
    """The client of a call, by its metadata."""

    client_id: str
    language: str
    version: str
    namespace: str
    """Counts where a name in the request has none of its own."""
    info: CallInfo

    @property
    def address(self) -> str:
        """The host of the client's connection."""
        return self.info.peer.rpartition(":")[0].strip("[]")


class Response(Protocol):
    """A response message."""

    @property
    def status(self) -> Status:
        """The result of the call."""
        ...

    def SerializeToString(self) -> bytes:  # noqa: N802 - protobuf's name
        """Return its bytes."""
        ...


Admit = Callable[[str, Caller, Any], str]
"""Returns the user that makes the call of this method with this request, empty if none is proved. Raises Refused unless the client may make it."""
Handler = Callable[[Caller, Any], Response | Awaitable[Response]]
"""Answers a request. A future costs no task. Raises Refused, or what `problem_of` knows."""
StreamHandler = Callable[[Caller, Any, Callable[[bytes], Awaitable[None]]], Awaitable[None]]
"""Answers a request by sending responses, serialized. Takes the client's tokens itself."""


def caller_of(info: CallInfo) -> Caller:
    """Return the client of a call. Raises Refused if it does not name itself, or at too great length."""
    caller = read_caller(info)
    if not caller.client_id:
        raise Refused(Code.CLIENT_ID_REQUIRED, "the metadata x-mq-client-id is missing")
    if len(caller.client_id) > CLIENT_ID_CHARS_MAX:
        raise Refused(
            Code.BAD_REQUEST, f"the metadata x-mq-client-id has over {CLIENT_ID_CHARS_MAX} characters"
        )
    return caller


def read_caller(info: CallInfo) -> Caller:
    """Return the client of a call; a name that is missing is empty."""
    headers = info.headers
    client_id, language, version, namespace = (
        headers.get(name, b"").decode(errors="replace").strip()
        for name in (CLIENT_ID, LANGUAGE, VERSION, NAMESPACE)
    )
    return Caller(client_id, language, version, namespace, info)


class Calls:
    """Makes the server's calls from handlers: parses, admits, and turns errors into responses."""

    def __init__(
        self,
        admit: Admit,
        moment: Callable[[], object],
        clients: Clients,
        limits: RateLimits | None,
        counts: CallCounts,
    ) -> None:
        """`moment` returns another value once `admit` may decide otherwise."""
        self._admit, self._moment, self._clients = admit, moment, clients
        self._limits, self._counts = limits, counts

    def unary(self, method: str, handler: Handler, *, takes_token: bool = True) -> Unary:
        """Return the call of a method with one response. `takes_token`: the call takes one of the client's tokens; else its handler does."""
        return _UnaryCall(self, method, handler, takes_token=takes_token)

    def streaming(self, method: str, handler: StreamHandler, closing: Callable[[], list[bytes]]) -> Streaming:
        """Return the call of a method with one request and many responses. `closing` returns what follows the status of a failed call.

        A call that waited is admitted again before its next response, if any right may have changed meanwhile.
        """

        async def serve(stream: Stream) -> None:
            started, code = self.now(), int(Code.OK)
            try:
                data = await stream.receive()
                since = self._moment()
                caller, request = self.read(method, stream.info, data or b"")

                def send(part: bytes) -> Awaitable[None]:
                    nonlocal since
                    if (now := self._moment()) != since:
                        since = now
                        self._admit(method, caller, request)
                    return stream.send(part)

                await handler(caller, request, send)
            except asyncio.CancelledError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever it was, the client gets a status
                failed = self.failure(method, error)
                code = failed.code
                for part in (METHODS[method].response(status=failed).SerializeToString(), *closing()):  # pyright: ignore[reportCallIssue] - the class is found by name
                    await stream.send(part)
            self.count(method, code, started)

        return serve

    # For the calls that it makes

    @property
    def is_limited(self) -> bool:
        """Whether calls take from token buckets."""
        return self._limits is not None

    def now(self) -> float:
        """Return the clock of durations, in seconds."""
        return self._counts.clock()

    def read(self, method: str, info: CallInfo, data: bytes) -> tuple[Caller, Any]:
        """Return the client and the request of an admitted call. Raises Refused."""
        try:
            request = parse(METHODS[method].request, data)
        except DecodeError as error:
            raise Refused(Code.BAD_REQUEST, f"the request of {method} cannot be read") from error
        except TooManyFields as error:
            raise Refused(Code.PAYLOAD_TOO_LARGE, f"the request of {method} has too many fields") from error
        user = self._admit(method, read_caller(info), request)
        caller = caller_of(info)
        self._clients.seen(caller.client_id, caller.language, user)
        return caller, request

    async def take(self, caller: Caller) -> None:
        """Take the token of one call without messages. Raises Problem."""
        if self._limits is not None and (wait_ms := await self._limits.take(caller.address, "", 1)):
            raise rate_limited(wait_ms)

    def failure(self, method: str, error: Exception) -> Status:
        """Return the status of a failed call; log what nobody expects."""
        problem = error if isinstance(error, Refused) else problem_of(error)
        if problem is None:
            _log.exception("call failed", method=method, exc_info=error)
            return status(Code.INTERNAL_SERVER_ERROR, "the gateway failed; its log says more")
        return status_of(problem)

    def count(self, method: str, code: int, started: float) -> None:
        """Count a call that began at this time."""
        self._counts.count(method, code, self._counts.clock() - started)


class _UnaryCall:
    """The calls of one method."""

    def __init__(self, calls: Calls, method: str, handler: Handler, *, takes_token: bool) -> None:
        self._calls, self._method, self._handler = calls, method, handler
        self._response = METHODS[method].response
        self._takes_token = takes_token and calls.is_limited

    def __call__(self, info: CallInfo, data: bytes) -> bytes | Awaitable[bytes]:
        started = self._calls.now()
        request: Any = None
        try:
            caller, request = self._calls.read(self._method, info, data)
            if self._takes_token:
                return self._limited(caller, request, started)
            result = self._handler(caller, request)
        except Exception as error:  # noqa: BLE001 - whatever it was, the client gets a status
            return self._refuse(error, request, started)
        return self._answer(result, request, started)

    def _answer(
        self, result: Response | Awaitable[Response], request: Any, started: float
    ) -> bytes | Awaitable[bytes]:
        if isinstance(result, Coroutine):
            return self._awaited(result, request, started)  # pyright: ignore[reportUnknownArgumentType] - a coroutine of a response
        if isinstance(result, asyncio.Future):
            return self._chained(result, request, started)  # pyright: ignore[reportUnknownArgumentType] - a future of a response
        assert not isinstance(result, Awaitable)
        return self._done(result, started)

    async def _limited(self, caller: Caller, request: Any, started: float) -> bytes:
        try:
            await self._calls.take(caller)
            result = self._handler(caller, request)
            response = await result if isinstance(result, Awaitable) else result
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - as above
            return self._refuse(error, request, started)
        return self._done(response, started)

    async def _awaited(self, work: Awaitable[Response], request: Any, started: float) -> bytes:
        try:
            response = await work
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - as above
            return self._refuse(error, request, started)
        return self._done(response, started)

    def _chained(self, work: "asyncio.Future[Response]", request: Any, started: float) -> Awaitable[bytes]:
        """Return a future of the bytes; cancelling it cancels the work."""
        answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def finish(done: "asyncio.Future[Response]") -> None:
            if answered.done():
                if not done.cancelled():
                    done.exception()  # looked at: nobody waits for it
            elif done.cancelled():
                answered.cancel()
            elif isinstance(error := done.exception(), Exception):
                answered.set_result(self._refuse(error, request, started))
            else:
                answered.set_result(self._done(done.result(), started))

        def cancelled(one: "asyncio.Future[bytes]") -> None:
            if one.cancelled():
                work.cancel()

        if work.done():
            finish(work)
        else:
            work.add_done_callback(finish)
            answered.add_done_callback(cancelled)
        return answered

    def _done(self, response: Response, started: float) -> bytes:
        data = response.SerializeToString()
        self._calls.count(self._method, response.status.code, started)
        return data

    def _refuse(self, error: Exception, request: Any, started: float) -> bytes:
        failed = self._calls.failure(self._method, error)
        response: Any = self._response(status=failed)  # pyright: ignore[reportCallIssue] - the class is found by name
        if self._method == "ChangeInvisibleDuration" and request is not None:
            # A client takes the handle of the response for the message's before it reads the status.
            response.receipt_handle = request.receipt_handle
        return self._done(response, started)
