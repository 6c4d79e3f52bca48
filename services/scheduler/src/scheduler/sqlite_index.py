"""The far end of the due index: messages that wait long, in an SQLite file. Derived: made anew from the log for every term.

Nothing here blocks the loop. Writes and loads go through one thread in their order, look-ups through another beside it; what is not
yet written is found in memory. The file is never synced: a crash costs a rebuild, as any new term does.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from scheduler.entries import COPIES_MAX, Entry

BATCH_ROWS = 4096
BACKLOG_ROWS_MAX = 65_536
WRITE_SECONDS = 0.1
"""Rows wait at most so long for others to be written with."""
CACHE_KIB = 24_576

_SCHEMA = """
PRAGMA page_size = 8192;
PRAGMA journal_mode = WAL;
PRAGMA wal_autocheckpoint = 4000;
CREATE TABLE far (
    key INTEGER PRIMARY KEY, lane INTEGER NOT NULL, at INTEGER NOT NULL, due INTEGER NOT NULL, position INTEGER NOT NULL,
    topic TEXT NOT NULL, queue INTEGER NOT NULL, uniq BLOB NOT NULL, keys BLOB NOT NULL, cancels BLOB NOT NULL
);
CREATE INDEX far_at ON far (lane, at);
"""
_INDEX_IDS = "CREATE INDEX IF NOT EXISTS far_uniq ON far (uniq)"
"""Made when all was read: sorting once costs a fraction of keeping it while a million rows come."""
_INSERT = "INSERT OR REPLACE INTO far VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_ENTRY = "due, key, position, topic, queue, uniq, keys, cancels, lane = 1"
"""Lane 1 is that of absolute instants."""
T = TypeVar("T")


class Place(NamedTuple):
    """Where a page of a list goes on: after this time and key."""

    at_ms: int
    key: int


class Wanted(NamedTuple):
    """Which messages a list shows; None does not narrow."""

    lanes: tuple[int, ...]
    topic: str | None = None
    message_key: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None


class SqliteIndex:
    """Far messages of one store. Rows are (lane, time to try it at, message)."""

    def __init__(self, path: Path) -> None:
        """Start an empty file at `path`; OSError or sqlite3.Error when that cannot be done."""
        self._path = path
        self._remove_file()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._writer = ThreadPoolExecutor(1, "index-writer")
        self._reader = ThreadPoolExecutor(1, "index-reader")
        self._write_to = _open(path)
        self._write_to.executescript(_SCHEMA)
        self._read_from = _open(path)
        self._rows: list[tuple[Any, ...]] = []
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
        due_ms, key, position, topic, queue_id, uniq, keys, cancels, _ = entry
        self._rows.append((key, lane, at_ms, due_ms, position, topic, queue_id, uniq, keys, cancels))
        self._unwritten[key] = entry
        same = self._unwritten_ids.get(uniq, ())
        if uniq and len(same) < COPIES_MAX:
            self._unwritten_ids[uniq] = (*same, key)
        if len(self._unwritten) >= BACKLOG_ROWS_MAX:
            self._room.clear()
        if len(self._rows) >= BATCH_ROWS:
            self._write()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WRITE_SECONDS, self._write)

    def read_all(self) -> None:
        """Note that the log was read to its end: look-ups by id are quick from soon on."""
        self._write()
        asyncio.get_running_loop().run_in_executor(self._writer, self._write_to.execute, _INDEX_IDS)

    async def room(self) -> None:
        """Wait until the thread has caught up so far that more may be added."""
        await self._room.wait()

    async def load(self, lane: int, until_ms: int, count: int) -> list[tuple[int, Entry]]:
        """Take out the earliest messages to be tried until a time, at most `count`."""
        self._write()
        rows = await self._in_writer(lambda: _take_out(self._write_to, lane, until_ms, count))
        return [(row[0], Entry._make(row[1:])) for row in rows]

    async def find(self, uniq: bytes) -> list[Entry]:
        """Return the messages with a unique key."""
        found = {key: self._unwritten[key] for key in self._unwritten_ids.get(uniq, ())}
        sql = f"SELECT {_ENTRY} FROM far WHERE uniq = ? LIMIT {COPIES_MAX}"  # noqa: S608 - constants
        rows = await self._in_reader(lambda: self._read_from.execute(sql, (uniq,)).fetchall())
        found.update({row[1]: Entry._make(row) for row in rows})
        return list(found.values())

    async def get(self, key: int) -> Entry | None:
        """Return one message; None when it is not here."""
        if key in self._unwritten:
            return self._unwritten[key]
        row = await self._in_reader(
            lambda: self._read_from.execute(f"SELECT {_ENTRY} FROM far WHERE key = ?", (key,)).fetchone()  # noqa: S608
        )
        return None if row is None else Entry._make(row)

    async def remove(self, keys: Sequence[int]) -> int:
        """Forget messages; returns how many were here."""
        self._write()

        def delete() -> int:
            with self._write_to:
                self._write_to.execute("BEGIN")
                return sum(
                    self._write_to.execute("DELETE FROM far WHERE key = ?", (key,)).rowcount for key in keys
                )

        return await self._in_writer(delete)

    async def page(self, wanted: Wanted, after: Place | None, count: int) -> list[tuple[int, Entry]]:
        """Return messages from `after` on, in the order of their times, with those times."""
        await self._all_written()
        words, values = _where(wanted, after)
        sql = f"SELECT at, {_ENTRY} FROM far WHERE {words} ORDER BY at, key LIMIT ?"  # noqa: S608 - values are bound
        rows = await self._in_reader(lambda: self._read_from.execute(sql, (*values, count)).fetchall())
        return [(row[0], Entry._make(row[1:])) for row in rows]

    async def below(self, position: int, first_key: int, end_key: int, count: int) -> list[Entry]:
        """Return messages of a source (its range of keys) whose records lie below a position of the log."""
        sql = f"SELECT {_ENTRY} FROM far WHERE key >= ? AND key < ? AND position < ? ORDER BY key LIMIT ?"  # noqa: S608
        await self._all_written()
        values = (first_key, end_key, position, count)
        rows = await self._in_reader(lambda: self._read_from.execute(sql, values).fetchall())
        return [Entry._make(row) for row in rows]

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
        done = asyncio.get_running_loop().run_in_executor(self._writer, _insert, self._write_to, rows)
        done.add_done_callback(lambda future: self._written(rows, future.exception()))

    async def _all_written(self) -> None:
        """Wait until what was added before is in the file."""
        self._write()
        await self._in_writer(lambda: None)

    def _written(self, rows: list[tuple[Any, ...]], failure: BaseException | None) -> None:
        if failure is not None:
            self._failure = failure
        for row in rows:
            key, uniq = row[0], row[7]
            self._unwritten.pop(key, None)
            keys = self._unwritten_ids.pop(uniq, ())
            if len(keys) > 1:
                self._unwritten_ids[uniq] = tuple(other for other in keys if other != key)
        self.rows_written += len(rows)
        if len(self._unwritten) < BACKLOG_ROWS_MAX:
            self._room.set()

    async def _in_writer(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._writer, work)

    async def _in_reader(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._reader, work)

    def _remove_file(self) -> None:
        for suffix in ("", "-wal", "-shm", "-journal"):
            Path(f"{self._path}{suffix}").unlink(missing_ok=True)


def _open(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=32)
    database.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    database.execute("PRAGMA synchronous = OFF")
    return database


def _insert(database: sqlite3.Connection, rows: list[tuple[Any, ...]]) -> None:
    database.execute("BEGIN")
    database.executemany(_INSERT, rows)
    database.execute("COMMIT")


def _take_out(database: sqlite3.Connection, lane: int, until_ms: int, count: int) -> list[tuple[Any, ...]]:
    database.execute("BEGIN")
    sql = f"SELECT at, {_ENTRY} FROM far WHERE lane = ? AND at <= ? ORDER BY at LIMIT ?"  # noqa: S608 - a constant
    rows = database.execute(sql, (lane, until_ms, count)).fetchall()
    database.executemany("DELETE FROM far WHERE key = ?", [(row[2],) for row in rows])
    database.execute("COMMIT")
    return rows


def _where(wanted: Wanted, after: Place | None) -> tuple[str, tuple[Any, ...]]:
    words = [f"lane IN ({', '.join('?' * len(wanted.lanes))})"]
    values: list[Any] = list(wanted.lanes)
    for column, value in (("topic =", wanted.topic), ("due >=", wanted.from_ms), ("due <", wanted.to_ms)):
        if value is not None:
            words.append(f"{column} ?")
            values.append(value)
    if wanted.message_key is not None:
        words.append("instr(' ' || CAST(keys AS TEXT) || ' ', ?) > 0")
        values.append(f" {wanted.message_key} ")
    if after is not None:
        words.append("(at, key) > (?, ?)")
        values += after
    return " AND ".join(words), tuple(values)
