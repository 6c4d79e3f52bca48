"""Small files that must survive: written whole, synced, exchanged atomically; the one before stays as `.bak`.

Writing happens in one thread of its own, in the order it was asked for.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


class DurableFile:
    """One file and its `.bak`."""

    def __init__(self, path: Path, writer: ThreadPoolExecutor) -> None:
        self.path = path
        self._writer = writer

    @property
    def backup(self) -> Path:
        """The content before the last write."""
        return self.path.with_name(self.path.name + ".bak")

    def read(self, parse: Callable[[bytes], T], report: Callable[[str], None]) -> T | None:
        """Return the parsed content; the backup's where the file is missing or damaged; None where both are."""
        for path in (self.path, self.backup):
            try:
                return parse(path.read_bytes())
            except FileNotFoundError:
                continue
            except Exception as error:  # noqa: BLE001 - any damage: say it, go on with the older copy
                report(
                    f"{path} cannot be read ({error}); "
                    + ("trying its backup" if path == self.path else "starting empty")
                )
        return None

    def write(self, content: bytes) -> asyncio.Future[None]:
        """Replace the content; the future is done when it is on disk, or holds the OSError."""
        return asyncio.get_running_loop().run_in_executor(self._writer, self.write_now, content)

    def write_now(self, content: bytes) -> None:
        """As `write`, at once. A crash at any point leaves the old content, the new, or the old as backup."""
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
