"""A call of a listener: started, perhaps waiting, ended with an outcome. The caller decides what follows from the outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from gantrymq.consumer.push.listeners import IN_CALL_OF, Listener, Waits, Way, begin
from gantrymq.consumer.retrying.outcomes import (
    SUCCEEDED,
    ConsumeContext,
    ConsumeResult,
    Outcome,
    shown,
    understand,
)
from gantrymq.consumer.shared.process_queue import ProcessQueue
from gantrymq.hooks import ConsumeCall, ConsumeHook, run_after, run_before
from gantrymq.message import ReceivedMessage

RAISED = (Exception, asyncio.CancelledError)
"""A listener that raises one of these gets its messages again later. No exception of a listener may end the worker it runs in."""


class Call:
    """A call of the listener that did not succeed immediately."""

    __slots__ = (
        "context",
        "expired",
        "hooked",
        "messages",
        "outcome",
        "queue",
        "seconds",
        "started",
        "waits",
    )

    def __init__(self, queue: ProcessQueue, messages: list[ReceivedMessage], now: float) -> None:
        """`now` is in seconds of the steady clock."""
        self.queue: ProcessQueue = queue
        self.messages: list[ReceivedMessage] = messages
        self.context: ConsumeContext | None = None
        self.hooked: ConsumeCall | None = None
        self.outcome: Outcome | None = None
        self.waits: Waits | None = None
        self.started: float = now
        self.seconds: float = 0.0
        """The duration of the call."""
        self.expired: bool = False
        """The call took too long: its messages were sent back, and its result is ignored."""

    @property
    def is_plain_success(self) -> bool:
        """Whether all its messages are done."""
        return self.outcome is SUCCEEDED and (self.context is None or self.context.ack_index is None)

    def take(self, returned: Any) -> None:
        """Take the listener's result, or note that it waits."""
        if isinstance(returned, Waits):
            self.waits = returned
        else:
            self.end(returned if isinstance(returned, Outcome) else understand(returned))

    def end(self, outcome: Outcome) -> None:
        """Take the outcome. An impossible value in the context makes the call fail, as an impossible result does."""
        context = self.context
        fault = context.fault() if context is not None else None
        if context is not None and fault is not None:
            self.context = ConsumeContext(context.queue)
            if outcome.failure is None:
                outcome = Outcome(fault)
        self.outcome = outcome


class Calling:
    """Calls a listener, in the loop or in a thread, with the hooks around it. An exception of the listener becomes an outcome."""

    def __init__(
        self,
        listener: Listener,
        group: str,
        steady: Callable[[], float],
        hooks: Sequence[ConsumeHook] = (),
    ) -> None:
        """`steady` is a monotonic clock in seconds."""
        self.way: Way = listener.way
        self.steady: Callable[[], float] = steady
        self._listener = listener
        self._function = listener.function
        self._group = group
        self._hooks = hooks
        self._is_plain = not listener.wants_context and not hooks

    def enter(self) -> None:
        """Mark the current task or thread as working for the listener."""
        IN_CALL_OF.set(self._listener)

    def start(self, queue: ProcessQueue, messages: list[ReceivedMessage]) -> Call | None:
        """Call the listener in the loop, up to its first wait. None: it succeeded immediately."""
        if not self._is_plain:
            return self._start_with_context(queue, messages)
        try:
            returned: Any = self._function(messages)
            if self.way is Way.COROUTINE:
                returned = begin(returned)
        except RAISED as error:
            returned = failed(error)
        if returned is None or returned is ConsumeResult.SUCCESS:
            return None
        call = Call(queue, messages, self.steady())
        call.take(returned)
        return call

    async def finish(self, call: Call) -> None:
        """Complete a call that waits."""
        if call.waits is None:
            return
        try:
            call.end(understand(await call.waits))
        except RAISED as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise  # the worker itself is being cancelled
            call.end(failed(error))
        call.waits = None
        call.seconds = self.steady() - call.started
        self.conclude(call)

    def prepare(self, call: Call) -> Call:
        """Prepare a call for a thread, in the loop: contexts and hooks belong there."""
        if self._listener.wants_context:
            call.context = ConsumeContext(call.messages[0].queue)
        if self._hooks:
            call.hooked = ConsumeCall(self._group, call.messages[0].queue, call.messages)
            run_before(self._hooks, call.hooked)
        return call

    def run(self, call: Call) -> None:
        """Call the listener to its end, or to its first wait: in a thread, or in the loop."""
        if self.way is Way.THREAD:
            self.enter()
        call.started = self.steady()
        try:
            returned: Any = self._listener.call(call.messages, call.context)
            if self.way is Way.COROUTINE:
                returned = begin(returned)
        except RAISED as error:
            returned = failed(error)
        except BaseException as error:
            if self.way is not Way.THREAD:
                raise  # SystemExit, for instance: in the loop it ends the program, in a thread only the thread
            returned = failed(error)
        call.take(returned)
        call.seconds = self.steady() - call.started

    def conclude(self, call: Call) -> None:
        """Call the hooks after a call, in the loop."""
        hooked = call.hooked
        if hooked is not None and call.outcome is not None:
            hooked.failure, hooked.success = call.outcome.failure, call.outcome.failure is None
            hooked.seconds = call.seconds
            run_after(self._hooks, hooked)

    def _start_with_context(self, queue: ProcessQueue, messages: list[ReceivedMessage]) -> Call | None:
        call = self.prepare(Call(queue, messages, self.steady()))
        self.run(call)
        if call.waits is None:
            self.conclude(call)
        return None if call.is_plain_success else call


def failed(error: BaseException) -> Outcome:
    """Return the outcome of a call that raised."""
    return Outcome(f"the listener raised {type(error).__name__}: {shown(error, str)}", error)
