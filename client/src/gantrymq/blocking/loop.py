"""The event loop behind the synchronous API: one per process, in a daemon thread, started on first use and again after a fork."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from gantrymq.errors import GantryError

log: logging.Logger = logging.getLogger("gantrymq")
T = TypeVar("T")


class LoopThread:
    """Runs coroutines for threads that have no loop."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting = threading.Lock()

    def begin(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Start a coroutine; the future has its result or exception."""
        return asyncio.run_coroutine_threadsafe(work, self._running())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and wait for it. Must not be called in the loop's thread: it would wait for itself."""
        loop = self._running()
        if _current_loop() is loop:
            work.close()
            raise GantryError(
                "a blocking call inside a callback of the SDK would wait for itself: use the asyncio API there"
            )
        begun = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return begun.result()
        except BaseException:
            begun.cancel()  # the user has stopped waiting (Ctrl-C), so the work stops too
            raise

    def call(self, function: Callable[[], T]) -> T:
        """Call a function in the loop's thread."""

        async def inside() -> T:
            return function()

        return self.run(inside())

    def forget(self) -> None:
        """Drop the loop, so that the next call starts another: after a fork its thread does not exist."""
        self._loop = None
        self._starting = threading.Lock()

    def _running(self) -> asyncio.AbstractEventLoop:
        loop = self._loop
        if loop is not None:
            return loop
        with self._starting:
            if self._loop is None:
                self._loop = _new_loop()
                thread = threading.Thread(
                    target=_serve, args=(self._loop,), name="gantry-blocking", daemon=True
                )
                thread.start()
            return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    while True:
        try:
            loop.run_forever()
        except (
            SystemExit,
            KeyboardInterrupt,
        ):  # of a listener, selector or hook: its caller gets the exception
            log.exception("user code tried to end the thread that all blocking calls need")


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # the standard loop works too, more slowly
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _current_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


loop_thread: LoopThread = LoopThread()
os.register_at_fork(after_in_child=loop_thread.forget)
