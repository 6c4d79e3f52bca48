"""Saves one configuration table after changes: one write at a time, each with the newest state."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from gantry_chassis.logs.structured import get_logger
from gantry_chassis.machine.environment import Workers

RETRY_SECONDS = 5.0

Answer = Callable[[OSError | None], None]

T = TypeVar("T")

_log = get_logger()


class Saver(Generic[T]):
    """Writes `encode()` with `store` in a thread whenever `changed` was called. `encode` runs on the loop, and nothing changes what it returns."""

    def __init__(
        self, name: str, encode: Callable[[], T], store: Callable[[T], None], thread: Workers
    ) -> None:
        self._name = name
        self._encode = encode
        self._store = store
        self._thread = thread
        self._is_dirty = False
        self._waiting: list[Answer] = []
        self._writing: asyncio.Future[None] | None = None

    def changed(self) -> None:
        """Save soon. Changes of one turn of the loop are one write."""
        self._is_dirty = True
        if self._writing is None:
            asyncio.get_running_loop().call_soon(self._write)

    def when_saved(self, answer: Answer) -> None:
        """Call `answer` once all changes so far are durable, or with the reason why they may not be."""
        if not self._is_dirty and self._writing is None:
            answer(None)
            return
        self._waiting.append(answer)

    async def saved(self) -> None:
        """Return once all changes so far are durable.

        Raises the write's error, usually OSError; the saver keeps retrying.
        """
        for _ in range(2):  # the running write may be older than the last change
            if self._writing is None:
                self._write()
            writing = self._writing
            if writing is None:
                return
            await asyncio.wait([writing])
            if (error := writing.exception()) is not None:
                raise error

    async def close(self) -> None:
        """Wait until everything is saved. A failure was logged."""
        while self._is_dirty or self._writing is not None:
            if self._writing is None:
                self._write()
            writing = self._writing
            if writing is not None:
                await asyncio.wait([writing])
                if writing.exception() is not None:
                    return

    def _write(self) -> None:
        if not self._is_dirty or self._writing is not None:
            return
        # A caller that arrives during this write waits for the next one, unless nothing has changed since.
        waiting, self._waiting = self._waiting, []
        self._is_dirty = False
        content = self._encode()
        self._writing = self._thread.run(self._store, content)
        self._writing.add_done_callback(lambda done: self._written(done, waiting))

    def _written(self, done: "asyncio.Future[None]", waiting: list[Answer]) -> None:
        self._writing = None
        error = None if done.cancelled() else done.exception()
        if error is not None and not isinstance(error, OSError):
            raise error
        if error is not None:
            self._is_dirty = True
            _log.error("configuration could not be saved, trying again", file=self._name, error=str(error))
            asyncio.get_running_loop().call_later(RETRY_SECONDS, self._write)
        elif self._is_dirty:
            asyncio.get_running_loop().call_soon(self._write)
        else:
            waiting += self._waiting
            self._waiting = []
        for answer in waiting:
            answer(error)
