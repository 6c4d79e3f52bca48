"""The far end of the due index: messages that wait long, in an SQLite file. Derived: made anew from the log for every term.

Nothing here blocks the loop. Writes and loads go through one thread in their order, look-ups through another beside it; what is not
yet written is found in memory. The file is never synced: a crash costs a rebuild, as any new term does. Its layout is `far_rows`.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from scheduler import far_rows
from scheduler.entries import COPIES_MAX, Entry
from scheduler.far_rows import Place, Row, Wanted

BATCH_ROWS = 8192
BACKLOG_ROWS_MAX = 32_768
WRITE_SECONDS = 0.5
"""Rows wait at most so long for others to be written with: rows of one slot that are written together share their pages."""
T = TypeVar("T")


class SqliteIndex:
    """Far messages of one store, each in a lane with the time to try it at."""

    def __init__(self, path: Path) -> None:
        """Start an empty file at `path`; OSError or sqlite3.Error when that cannot be done."""
        self._path = path
        self._remove_file()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._writer = ThreadPoolExecutor(1, "index-writer")
        self._reader = ThreadPoolExecutor(1, "index-reader")
        self._write_to = far_rows.create(path)
        self._read_from = far_rows.open_to_read(path)
        self._rows: list[tuple[int, int, Entry]] = []
        self._unwritten: dict[int, Entry] = {}
        self._unwritten_ids: dict[bytes, tuple[int, ...]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._failure: BaseException | None = None
        self.rows_written = 0

    def add(self, lane: int, at_ms: int, entry: Entry) -> None:
        """Keep a message; written with others soon. Raises what broke an earlier write."""
        if self._failure is not None:
            raise RuntimeError("the due index cannot be written") from self._failure
        self._rows.append((lane, at_ms, entry))
        self._unwritten[entry.key] = entry
        if uniq := entry.uniq:
            same = self._unwritten_ids.get(uniq, ())
            if len(same) < COPIES_MAX:
                self._unwritten_ids[uniq] = (*same, entry.key)
        if len(self._unwritten) >= BACKLOG_ROWS_MAX:
            self._room.clear()
        if len(self._rows) >= BATCH_ROWS:
            self._write()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WRITE_SECONDS, self._write)

    @property
    def has_room(self) -> bool:
        """Whether more may be added now."""
        return self._room.is_set()

    def read_all(self) -> None:
        """Note that the log was read to its end: look-ups by id are quick from soon on."""
        self._write()
        asyncio.get_running_loop().run_in_executor(self._writer, far_rows.index_ids, self._write_to)

    async def room(self) -> None:
        """Wait until the thread has caught up so far that more may be added."""
        await self._room.wait()

    async def load(self, lane: int, until_ms: int, count: int) -> list[tuple[int, Entry]]:
        """Take out the earliest messages to be tried until a time, at most `count`."""
        self._write()
        return await self._in_writer(lambda: far_rows.take_out(self._write_to, lane, until_ms, count))

    async def find(self, uniq: bytes) -> list[Entry]:
        """Return the messages with a unique key."""
        found = {key: self._unwritten[key] for key in self._unwritten_ids.get(uniq, ())}
        for entry in await self._in_reader(lambda: far_rows.find(self._read_from, uniq)):
            found[entry.key] = entry
        return list(found.values())

    def remove(self, lane: int, entries: Sequence[Entry]) -> asyncio.Future[int]:
        """Forget messages of a lane; the future gives how many were here. What is asked for later sees them no more."""
        self._write()
        return asyncio.get_running_loop().run_in_executor(
            self._writer, far_rows.remove, self._write_to, lane, entries
        )

    async def page(self, wanted: Wanted, after: Place | None, count: int) -> list[tuple[int, Entry]]:
        """Return messages from `after` on, in the order of their times and keys, with those times."""
        await self._all_written()
        return await self._in_reader(lambda: far_rows.page(self._read_from, wanted, after, count))

    async def below(self, position: int, first_key: int, end_key: int, count: int) -> list[Entry]:
        """Return messages of a source (its range of keys) whose records lie below a position of the log. Looks at every row."""
        await self._all_written()
        return await self._in_reader(
            lambda: far_rows.below(self._read_from, position, first_key, end_key, count)
        )

    async def close(self) -> None:
        """End the threads and delete the file."""
        if self._timer is not None:
            self._timer.cancel()
        self._failure = RuntimeError("closed")
        for pool, database in ((self._reader, self._read_from), (self._writer, self._write_to)):
            with contextlib.suppress(sqlite3.Error, RuntimeError):
                await asyncio.get_running_loop().run_in_executor(pool, database.close)
            pool.shutdown(wait=False)
        self._remove_file()

    def _write(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        rows, self._rows = self._rows, []
        if not rows or self._failure is not None:
            return
        done = asyncio.get_running_loop().run_in_executor(self._writer, far_rows.insert, self._write_to, rows)
        done.add_done_callback(lambda future: self._written(rows, future.exception()))

    async def _all_written(self) -> None:
        """Wait until what was added before is in the file."""
        self._write()
        await self._in_writer(lambda: None)

    def _written(self, rows: Iterable[Row], failure: BaseException | None) -> None:
        if failure is not None:
            self._failure = failure
        count, unwritten, ids = 0, self._unwritten, self._unwritten_ids
        for _, _, entry in rows:
            unwritten.pop(entry.key, None)
            keys = ids.pop(entry.uniq, ())
            if len(keys) > 1:
                ids[entry.uniq] = tuple(other for other in keys if other != entry.key)
            count += 1
        self.rows_written += count
        if len(self._unwritten) < BACKLOG_ROWS_MAX:
            self._room.set()

    async def _in_writer(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._writer, work)

    async def _in_reader(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._reader, work)

    def _remove_file(self) -> None:
        for suffix in ("", "-wal", "-shm", "-journal"):
            Path(f"{self._path}{suffix}").unlink(missing_ok=True)
