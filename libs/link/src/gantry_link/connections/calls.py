"""Open calls of one connection, and the shared timer that times them out.

Each call costs a dict entry and a future. There is no timer per call: `Deadlines` runs one at the earliest deadline of all
connections, at most once in SWEEP_SECONDS.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from gantry_link.connections.per_loop import PerLoop
from gantry_link.errors import ConnectionBusy, ConnectionLost, LinkError, RequestTimedOut
from gantry_wire.frames.command import Command

SWEEP_SECONDS = 0.05
"""A call times out at most this late."""
OPAQUE_MASK = 0x7FFFFFFF
NEVER = float("inf")


class Answer(Protocol):
    """Receives the answer to a call or its error: a future, or something cheaper."""

    def done(self) -> bool:
        """Whether the caller no longer waits."""
        ...

    def set_result(self, result: Command, /) -> None:
        """Receive the answer, whatever its code."""
        ...

    def set_exception(self, exception: LinkError, /) -> None:
        """Receive the error: there will be no answer."""
        ...


Call: TypeAlias = "tuple[Answer, float, float]"
"""One open request: receiver of the answer, deadline and start in loop time. A plain tuple, because every request needs one."""


class Calls:
    """The open calls of one connection in one direction, by opaque.

    `withdraw(opaque)` removes a request that is not yet written and returns whether it did.
    """

    __slots__ = (
        "_deadlines",
        "_loop",
        "_max",
        "_next_deadline",
        "_on_silence",
        "_opaque",
        "_pending",
        "_withdraw",
        "is_watched",
    )

    def __init__(
        self, withdraw: Callable[[int], bool], calls_max: int, on_silence: Callable[[float], None] | None
    ) -> None:
        """`on_silence` is called with the start time of a call that was sent and timed out."""
        self._loop = asyncio.get_running_loop()
        self._deadlines = Deadlines.current()
        self._pending: dict[int, Call] = {}
        self._withdraw = withdraw
        self._max = calls_max
        self._opaque = 0
        self._next_deadline = NEVER
        self.is_watched = False
        self._on_silence = on_silence

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def oldest_started(self) -> float | None:
        """Loop time at which the oldest open call was started; None if none is open."""
        call = next(iter(self._pending.values()), None)
        return None if call is None else call[2]

    def next_opaque(self) -> int:
        """Return an opaque that no open call has. It wraps within 31 bits."""
        opaque = self._opaque = (self._opaque + 1) & OPAQUE_MASK
        while opaque in self._pending:
            opaque = self._opaque = (self._opaque + 1) & OPAQUE_MASK
        return opaque

    def next_opaques(self, count: int) -> Sequence[int]:
        """Return this many opaques that no open call has."""
        opaques = range(self._opaque + 1, self._opaque + 1 + count)
        if self._opaque + count > OPAQUE_MASK or not self._pending.keys().isdisjoint(opaques):
            return [self.next_opaque() for _ in range(count)]
        self._opaque += count
        return opaques

    def open(self, opaque: int, timeout: float) -> asyncio.Future[Command]:
        """Start waiting for the answer with this opaque. Raises ConnectionBusy beyond the limit."""
        answer: asyncio.Future[Command] = self._loop.create_future()
        self.open_for(answer, opaque, timeout)
        return answer

    def open_for(self, answer: Answer, opaque: int, timeout: float) -> None:
        """As `open`, with a given receiver of the answer."""
        if len(self._pending) >= self._max:
            raise ConnectionBusy(f"{self._max} calls already wait on this connection")
        now = self._loop.time()
        deadline = now + timeout
        self._pending[opaque] = (answer, deadline, now)
        if deadline < self._next_deadline or not self.is_watched:
            self._watch_until(deadline)

    def open_together(self, calls: Mapping[int, Call], earliest: float) -> None:
        """As `open_for`, for several calls. The first deadline is `earliest`. The caller checks the limit."""
        self._pending.update(calls)
        if earliest < self._next_deadline or not self.is_watched:
            self._watch_until(earliest)

    def _watch_until(self, deadline: float) -> None:
        self._next_deadline = min(self._next_deadline, deadline)
        self._deadlines.watch(self, deadline)

    def resolve(self, command: Command) -> bool:
        """Pass an answer to its call. Returns False if the call is no longer open."""
        call = self._pending.pop(command.opaque, None)
        if call is None:
            return False
        answer = call[0]
        if not answer.done():
            answer.set_result(command)
        return True

    def expire(self, now: float) -> float:
        """End the calls that timed out. Returns when to look again: no call times out before. NEVER: none is open."""
        if now >= self._next_deadline:
            late = [opaque for opaque, (_, deadline, _) in self._pending.items() if deadline <= now]
            for opaque in late:
                call = self._pending.pop(opaque, None)
                if (
                    call is not None
                ):  # None: an earlier time-out closed the connection and ended all its calls
                    self._time_out(opaque, call)
            self._next_deadline = min((deadline for _, deadline, _ in self._pending.values()), default=NEVER)
        if not self._pending:
            self._next_deadline = NEVER
        return self._next_deadline

    def fail_all(self, error: Callable[[bool], LinkError]) -> None:
        """End every call with `error(sent)` after the connection ended."""
        pending, self._pending = self._pending, {}
        self._next_deadline = NEVER
        self._deadlines.forget(self)
        for opaque, (answer, _, _) in pending.items():
            withdrawn = self._withdraw(opaque)
            if not answer.done():
                answer.set_exception(error(not withdrawn))

    def give_up(self, wanted: Callable[[Answer], bool], why: str) -> None:
        """End the calls that `wanted` selects, as if the connection had ended."""
        for opaque in [opaque for opaque, (answer, _, _) in self._pending.items() if wanted(answer)]:
            answer, _, _ = self._pending.pop(opaque)
            sent = not self._withdraw(opaque)
            if not answer.done():
                answer.set_exception(ConnectionLost(why, sent=sent))

    def _time_out(self, opaque: int, call: Call) -> None:
        sent = not self._withdraw(opaque)
        answer, deadline, started = call
        if not answer.done():
            how = "no answer" if sent else "not sent"
            answer.set_exception(RequestTimedOut(f"{how} within {deadline - started:.3g} s", sent=sent))
        if sent and self._on_silence is not None:
            self._on_silence(started)


class Deadlines:
    """The shared timer of one loop. It runs only while some connection has open calls."""

    __slots__ = ("_loop", "_timer", "_timer_at", "_watched")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._watched: dict[Calls, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = NEVER

    @staticmethod
    def current() -> Deadlines:
        """Return the Deadlines of the running loop."""
        return _deadlines.current()

    def watch(self, calls: Calls, deadline: float) -> None:
        """Check these calls for time-outs at `deadline`, and until a sweep finds none open."""
        calls.is_watched = True
        self._watched[calls] = None
        if deadline < self._timer_at:
            self._sweep_at(deadline)

    def forget(self, calls: Calls) -> None:
        """Check these calls no more: none is open."""
        calls.is_watched = False
        self._watched.pop(calls, None)

    def _sweep_at(self, deadline: float) -> None:
        when = max(deadline, self._loop.time() + SWEEP_SECONDS)
        if when >= self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = when
        self._timer = self._loop.call_at(when, self._sweep)

    def _sweep(self) -> None:
        now, next_deadline = self._loop.time(), NEVER
        self._timer, self._timer_at = None, NEVER
        for calls in list(self._watched):
            try:
                deadline = calls.expire(now)
            except Exception as error:  # noqa: BLE001 - a failure of one connection must not stop the time-outs of all
                deadline = now if len(calls) else NEVER
                context = {"message": "ending the calls of a connection failed", "exception": error}
                self._loop.call_exception_handler(context)
            if deadline == NEVER:
                self.forget(calls)
            else:
                next_deadline = min(next_deadline, deadline)
        if next_deadline != NEVER:
            self._sweep_at(next_deadline)


_deadlines = PerLoop(Deadlines)
