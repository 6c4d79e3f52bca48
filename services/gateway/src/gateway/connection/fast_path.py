"""The fast path of hot calls: requests with a known head are answered without a parser, an ASGI scope and a task.

A call with an unusual request or result continues as an ASGI call: the slow path, with the same code behind it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, NamedTuple, Protocol

from gantry_chassis.http.authorizing import CERTIFICATE
from gantry_chassis.machine.memory import LargeThings
from gantry_wire.bounded_cache import BoundedCache
from gateway.http.access import Access, Gate
from gateway.http.call import Call, Event, Reply, json_head
from gateway.http.clocks import ReplyStamps
from gateway.http.metrics import CallMetrics

HEADS_MAX = 2048
"""Maximum number of known heads."""
_OF_CONNECTION = frozenset({"server", "client", "gateway.is_lost", "gateway.when_lost", CERTIFICATE})
"""The parts of a scope that are its connection's: another connection may send the same head."""


class Exchange(Protocol):
    """One request with a known head on its connection, and the writer of its reply."""

    keep_alive: bool
    """False: the connection closes after the reply."""

    @property
    def address(self) -> str:
        """The client's address."""
        ...

    @property
    def is_lost(self) -> bool:
        """Whether the connection is closed."""
        ...

    @property
    def is_answered(self) -> bool:
        """Whether the whole reply was written."""
        ...

    def scope(self) -> dict[str, Any]:
        """Return the request's ASGI scope."""
        ...

    async def receive(self) -> Event:
        """Return the body, then wait until the client disconnects."""
        ...

    async def send(self, event: Event) -> None:
        """Take a part of the reply."""
        ...

    def write(self, answer: bytes) -> None:
        """Write the bytes of the whole reply; nothing if one was written."""
        ...

    def abort(self) -> None:
        """Close the connection without a reply."""
        ...


class FastCall(Protocol):
    """A call under one known head, whose contents were checked when it was learned."""

    name: str
    """What it is counted as."""

    def start(self, exchange: Exchange, body: bytes) -> bool:
        """Start to answer a request; False, with nothing done, if the slow path has to answer it."""
        ...


class FastRoute(Protocol):
    """Creates fast calls."""

    def fast_call(self, scope: dict[str, Any]) -> FastCall | None:
        """Return the fast call for requests of this scope; None if only the slow path handles them."""
        ...


class KnownHead(NamedTuple):
    """The meaning of a head: the scope of its requests without the connection's part, and their fast call."""

    scope: dict[str, Any]
    call: FastCall | None
    gate: Gate | None
    """Decides about each request; None without access control."""


class FastAnswers:
    """Writes the replies of fast calls and counts them."""

    def __init__(
        self,
        access: Access,
        call_metrics: CallMetrics,
        stamps: ReplyStamps,
        finish: Callable[[Call, Coroutine[Any, Any, Reply]], Coroutine[Any, Any, None]],
        gzip_bytes_min: int,
        large: LargeThings,
    ) -> None:
        """`finish` answers a call with the result or error of a coroutine, like the slow path."""
        self.access = access
        self.clock = call_metrics.clock
        self._call_metrics, self._stamps, self._finish = call_metrics, stamps, finish
        self._gzip_bytes_min, self._large = gzip_bytes_min, large
        self._tasks: set[asyncio.Task[None]] = set()

    def write_json(
        self, exchange: Exchange, body: bytes, name: str, started: float, *, may_pack: bool
    ) -> bool:
        """Reply 200 with a JSON body, counted as `name`; False, with nothing written, if it has to be compressed."""
        varies = bool(self._gzip_bytes_min) and len(body) >= self._gzip_bytes_min
        if varies and may_pack:
            return False
        head = json_head(self._stamps, len(body), stays=exchange.keep_alive, varies=varies)
        exchange.write(head + body)
        self._large.had(len(body))
        self._call_metrics.count(name, 200, self.clock() - started)
        return True

    def finish(
        self, exchange: Exchange, name: str, reply: Callable[[Call], Coroutine[Any, Any, Reply]]
    ) -> None:
        """Answer like the slow path, with the result or error of `reply`; the body of its call is already read."""
        call = Call(exchange.scope(), exchange.receive, exchange.send, self._stamps)
        call.scope["route_name"] = name
        _keep(asyncio.ensure_future(self._finish(call, _read_then(call, reply))), self._tasks, exchange)

    def fail(self, exchange: Exchange, name: str, error: Exception) -> None:
        """Answer with the problem an exception stands for, as the slow path does; log it if the answer is already written."""

        async def reply(_call: Call) -> Reply:
            raise error

        if exchange.is_answered:
            _report("a call failed after its answer", error)
        else:
            self.finish(exchange, name, reply)


class FastPath:
    """Remembers the heads of hot calls, and starts the requests that have them."""

    def __init__(
        self,
        answer: Callable[[Call], Awaitable[None]],
        stamps: ReplyStamps,
        is_hot: Callable[[str], bool],
        routes: Sequence[FastRoute],
        fail: Callable[[Exchange, str, Exception], None],
        gate_of: Callable[[dict[str, Any]], Gate | None],
    ) -> None:
        """`answer` is the slow path; `fail` answers a call of this name that raised an exception.

        `gate_of` returns what decides about the requests of a scope; None without access control.
        """
        self._fail, self._gate_of = fail, gate_of
        self._answer, self._stamps, self._is_hot, self._routes = answer, stamps, is_hot, routes
        self.heads: BoundedCache[bytes, KnownHead] = BoundedCache(HEADS_MAX)
        """The meaning of heads, by their bytes."""

    def learn(self, head: bytes, scope: dict[str, Any]) -> None:
        """Learn a head that the parser has read."""
        if not self._is_hot(scope["path"]):
            return
        kept = {name: value for name, value in scope.items() if name not in _OF_CONNECTION}
        calls = (route.fast_call(kept) for route in self._routes)
        call = next((call for call in calls if call is not None), None)
        self.heads.keep(head, KnownHead(kept, call, None if call is None else self._gate_of(kept)))

    def start(
        self, known: KnownHead, exchange: Exchange, body: bytes, tasks: set[asyncio.Task[None]]
    ) -> None:
        """Start a request; one for the slow path is added to `tasks`."""
        fast, gate = known.call, known.gate
        admission = None if gate is None else gate(exchange.address)
        if fast is not None and (gate is None or admission is not None):
            try:
                if fast.start(exchange, body):
                    return
            except Exception as error:  # noqa: BLE001 - perhaps it was sent: the slow path would send it again
                self._fail(exchange, fast.name, error)
                return
        call = Call(exchange.scope(), exchange.receive, exchange.send, self._stamps, admission)
        _keep(asyncio.ensure_future(_run(self._answer(call))), tasks, exchange)


async def _run(answering: Awaitable[None]) -> None:
    await answering


def _keep(task: asyncio.Task[None], tasks: set[asyncio.Task[None]], exchange: Exchange) -> None:
    """Keep a task until it is done; the connection of one that failed is closed, so that its client does not wait."""

    def on_done(task: asyncio.Task[None]) -> None:
        tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            _report("a request could not be answered", error)
            exchange.abort()

    tasks.add(task)
    task.add_done_callback(on_done)


def _report(words: str, error: BaseException) -> None:
    asyncio.get_running_loop().call_exception_handler({"message": words, "exception": error})


async def _read_then(call: Call, reply: Callable[[Call], Coroutine[Any, Any, Reply]]) -> Reply:
    await call.body()
    return await reply(call)
