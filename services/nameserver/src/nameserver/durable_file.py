"""Stores small files durably: written whole, synced, replaced atomically; the previous one stays as `.bak`.

A dedicated thread writes. Changes made during a write share the next one, so many concurrent changes cost two writes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from gantry_chassis.machine.environment import Workers

T = TypeVar("T")


class DurableFile:
    """One file and its `.bak`."""

    def __init__(self, path: Path, writer: Workers) -> None:
        self.path = path
        self._writer = writer
        self._current: asyncio.Future[None] | None = None
        self._next: asyncio.Future[None] | None = None

    @property
    def backup(self) -> Path:
        """The content before the last write."""
        return self.path.with_name(self.path.name + ".bak")

    def read(self, parse: Callable[[bytes], T], report: Callable[[str], None]) -> T | None:
        """Return the parsed content, the backup's where the file is missing or damaged, or None where both are."""
        for path in (self.path, self.backup):
            try:
                return parse(path.read_bytes())
            except FileNotFoundError:
                continue
            except Exception as error:  # noqa: BLE001 - any damage: log it, use the older copy
                report(
                    f"{path} cannot be read ({error}); "
                    + ("trying its backup" if path == self.path else "starting empty")
                )
        return None

    def write(self, content: Callable[[], bytes]) -> asyncio.Future[None]:
        """Replace the content. The future completes once the current `content` is on disk, or fails with the error.

        `content` is called when the write begins. Callers may share a future, so none of them may cancel it.
        """
        if self._current is None:
            self._current = self._begin(content)
            return self._current
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
            self._current.add_done_callback(lambda _done: self._go_on(content))
        return self._next

    def _begin(self, content: Callable[[], bytes]) -> asyncio.Future[None]:
        current = self._writer.run(self.write_now, content())
        current.add_done_callback(self._end)
        return current

    def _end(self, _current: asyncio.Future[None]) -> None:
        self._current = None

    def _go_on(self, content: Callable[[], bytes]) -> None:
        waiting, self._next = self._next, None
        if waiting is None:
            return
        try:
            self._current = self._begin(content)
        except Exception as error:  # noqa: BLE001 - whatever keeps the content from being made, its callers learn it
            waiting.set_exception(error)
            return
        self._current.add_done_callback(lambda done: _copy_result(done, waiting))

    def write_now(self, content: bytes) -> None:
        """Write synchronously. A crash at any point leaves the old content, the new one, or the old one as backup."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.path.with_name(self.path.name + ".tmp")
        with fresh.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if self.path.exists():
            self.path.replace(self.backup)
        fresh.replace(self.path)
        directory = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _copy_result(done: asyncio.Future[None], waiting: asyncio.Future[None]) -> None:
    error = done.exception()
    if error is None:
        waiting.set_result(None)
    else:
        waiting.set_exception(error)
