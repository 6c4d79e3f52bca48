"""The event loop behind the synchronous face: one a process, in a daemon thread, started when first used, anew after a fork."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from gantry.errors import GantryError

log: logging.Logger = logging.getLogger("gantry")
T = TypeVar("T")


class LoopThread:
    """Runs coroutines for threads that have no loop."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting = threading.Lock()

    def begin(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Start a coroutine; the future gives what it returns or raises."""
        return asyncio.run_coroutine_threadsafe(work, self._running())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and wait for it. Not to be called from within the loop: it would wait for itself."""
        loop = self._running()
        if _current_loop() is loop:
            work.close()
            raise GantryError(
                "a blocking call inside a callback of the SDK would wait for itself: use the asyncio face there"
            )
        begun = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return begun.result()
        except BaseException:
            begun.cancel()  # the user has stopped waiting (Ctrl-C): so does the work
            raise

    def call(self, function: Callable[[], T]) -> T:
        """Call a function inside the loop."""

        async def inside() -> T:
            return function()

        return self.run(inside())

    def forget(self) -> None:
        """Start another loop when asked again: a fork has no threads but its own."""
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
        except (SystemExit, KeyboardInterrupt):  # of a listener, selector or hook: who called it hears of it
            log.exception("code of the user wanted to end the thread that all blocking calls need")


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # where it cannot be installed the standard loop does, more slowly
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _current_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


loop_thread: LoopThread = LoopThread()
os.register_at_fork(after_in_child=loop_thread.forget)
