"""The deadlines of all calls of a server. One timer for all of them: most calls end long before."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

STEPS_PER_SECOND: Final = 20
"""A call ends at most one step after its deadline."""


class Late(Protocol):
    """A call with a deadline."""

    def late(self) -> None:
        """End it: its deadline has passed."""
        ...


class Deadlines:
    """Calls by the step in which their deadline passes."""

    def __init__(self) -> None:
        self._steps: dict[int, dict[Late, None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_step = 0

    def add(self, call: Late, deadline: float) -> int:
        """Watch a call whose deadline is in loop time. Return what `remove` takes."""
        step = int(deadline * STEPS_PER_SECOND) + 1
        calls = self._steps.get(step)
        if calls is None:
            calls = self._steps[step] = {}
            if self._timer is None or step < self._timer_step:
                self._set_timer(step)
        calls[call] = None
        return step

    def remove(self, call: Late, step: int) -> None:
        """Forget a call that has ended."""
        calls = self._steps.get(step)
        if calls is not None:
            calls.pop(call, None)
            if not calls:
                del self._steps[step]

    def close(self) -> None:
        """Forget all calls."""
        self._steps.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self, step: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_step = step
        self._timer = asyncio.get_running_loop().call_at(step / STEPS_PER_SECOND, self._pass)

    def _pass(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time() * STEPS_PER_SECOND
        for step in [step for step in self._steps if step <= now]:
            for call in self._steps.pop(step):
                call.late()
        if self._steps and self._timer is None:
            self._set_timer(min(self._steps))
