"""Runs gathered work once at the end of a turn of the event loop: work first, then writes.

One Turn per loop. Its callbacks run after the input of all ready sockets was handled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gantry_link.connections.per_loop import PerLoop


class Turn:
    """Runs callbacks once at the end of this turn: those of `at_end`, then those of `write_at_end`.

    Work added while work runs waits for the next turn. Writes added by work run in this turn.
    """

    __slots__ = ("_loop", "_scheduled", "_work", "_writes")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._scheduled = False
        self._work: dict[Callable[[], None], None] = {}
        self._writes: list[Callable[[], None]] = []

    @staticmethod
    def current() -> Turn:
        """Return the Turn of the running loop."""
        return _turns.current()

    def at_end(self, callback: Callable[[], None]) -> None:
        """Call `callback` once at the end of this turn, however often it is added."""
        self._work[callback] = None
        if not self._scheduled:
            self._schedule()

    def write_at_end(self, callback: Callable[[], None]) -> None:
        """Call `callback` after all work of this turn. The caller adds it once per turn: it is not de-duplicated."""
        self._writes.append(callback)
        if not self._scheduled:
            self._schedule()

    def end(self) -> None:
        """Run the callbacks added so far now. For a caller with more work in this turn of the loop."""
        if self._scheduled:
            self._do()

    def _schedule(self) -> None:
        self._scheduled = True
        self._loop.call_soon(self._run)

    def _run(self) -> None:
        self._do()
        self._scheduled = False
        if self._work or self._writes:
            self._schedule()

    def _do(self) -> None:
        work, self._work = self._work, {}
        self._run_each(list(work))
        writes, self._writes = self._writes, []
        self._run_each(writes)

    def _run_each(self, callbacks: list[Callable[[], None]]) -> None:
        for callback in callbacks:
            try:
                callback()
            except Exception as error:  # noqa: BLE001 - one failing callback must not stop the others
                context = {"message": "a callback at the end of a turn failed", "exception": error}
                self._loop.call_exception_handler(context)


_turns = PerLoop(Turn)
