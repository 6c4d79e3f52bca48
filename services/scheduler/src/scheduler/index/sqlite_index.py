"""Keeps the far end of the due index in an SQLite file: messages that wait long. Derived: delete it any time nothing runs.

Nothing here blocks the loop. One thread does writes and loads in order, a second lists, a third lookups by id: a
cancel waits for neither. Unwritten messages are found in memory. The file is never synced. It outlives the process,
but not the machine's run. A term continues with what an earlier one left (`keep`, `kept_rows`). `far_rows` defines
the layout. While the disk is full everything stays in place and is retried. Any other file error ends the term
(`run`); the next term creates a new file.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from gantry_chassis.logs.structured import get_logger
from gantry_chassis.machine.environment import Workers
from gantry_chassis.machine.memory import give_back
from scheduler.index import far_rows, kept_rows
from scheduler.index.entries import COPIES_MAX, Entry
from scheduler.index.far_rows import Place, Row, Wanted
from scheduler.index.kept_rows import Kept
from scheduler.index.known_offsets import QueueState

BATCH_ROWS = 16_384
BACKLOG_ROWS_MAX = 65_536
WRITE_SECONDS = 0.5
"""Longest wait of a row before it is written. Rows of one slot written together share pages."""
REMOVE_SECONDS = 0.05
"""Removals within this time share a transaction: one for each cancelled message slowed down the next cancel."""
FULL_SECONDS = 1.0
"""Wait before retrying on a full disk."""
T = TypeVar("T")

_log = get_logger()


class IndexClosed(Exception):
    """The term has ended, and its index is closed: what was asked is not known here any more."""


class Unwritten:
    """Rows not in the file yet. Indexed by id only on a lookup: most are written without one."""

    def __init__(self, rows: list[Row] | None = None) -> None:
        self.rows: list[Row] = rows or []
        """May grow; never shrinks."""
        self._ids: dict[bytes, list[Entry]] = {}
        self._known = 0
        """Number of `rows` indexed in `_ids`."""

    def find(self, uniq: bytes) -> list[Entry]:
        """Return the messages with a unique key; only the first ones when there are very many."""
        for _, _, entry in self.rows[self._known :]:
            if entry.uniq:
                self._ids.setdefault(entry.uniq, []).append(entry)
        self._known = len(self.rows)
        return self._ids.get(uniq, [])[:COPIES_MAX]


class SqliteIndex:
    """Far messages of one store, each in a due queue with the time to try it."""

    def __init__(self, path: Path, workers: Callable[[int, str], Workers], made_for: str = "") -> None:
        """Open the file at `path` if it matches `made_for`, else create an empty one. Raises OSError or sqlite3.Error.

        Call `keep` or `reset` before using an old file.
        """
        self._path, self._made_for = path, made_for
        old = far_rows.open_old(path, made_for) if made_for else None
        self.is_old = old is not None
        if old is None:
            self._remove_file()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._writer = workers(1, "index-writer")
        self._lister = workers(1, "index-lister")
        self._finder = workers(1, "index-finder")
        self._write_to = old or far_rows.create(path, made_for)
        self._list_from = far_rows.open_to_read(path)
        self._find_in = far_rows.open_to_read(path)
        self._open = Unwritten()
        self._writing: list[Unwritten] = []
        """The writer thread's jobs, oldest first."""
        self._removing: set[int] = set()
        """Keys being removed: lookups do not wait for the writer thread."""
        self._wishes: list[tuple[int, Sequence[Entry], asyncio.Future[int]]] = []
        """Messages to remove, by due queue, and the future of their count."""
        self._taking: set[asyncio.Future[list[tuple[int, Entry]]]] = set()
        """Loads in progress: no longer in the file, not yet here."""
        self._timer: asyncio.TimerHandle | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._is_full = self._is_closed = False
        self.rows_written = 0

    async def run(self) -> None:
        """Wait until cancelled. Raises sqlite3.Error when the file is unusable."""
        await self._broken

    async def keep(self, states: Mapping[int, QueueState]) -> Kept | None:
        """Bring what an earlier term left in line with what is decided; None when it is unusable."""
        try:
            return await self._in_writer(lambda: kept_rows.keep(self._write_to, states))
        except sqlite3.Error as error:
            _log.warning("the due index on disk cannot be read", path=str(self._path), reason=str(error))
            return None

    async def reset(self) -> None:
        """Forget what an earlier term left. Raises sqlite3.Error."""
        await self._in_writer(lambda: far_rows.reset(self._write_to, self._made_for))

    def add(self, due_queue: int, at_ms: int, entry: Entry) -> None:
        """Keep a message; it is written soon, together with others."""
        self.add_all([(due_queue, at_ms, entry)])

    def add_all(self, rows: list[Row]) -> None:
        """Keep messages, as `add` does."""
        if not rows:
            return
        self._open.rows += rows
        if self._backlog >= BACKLOG_ROWS_MAX:
            self._room.clear()
        if len(self._open.rows) >= BATCH_ROWS and not self._is_full:
            self._write()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WRITE_SECONDS, self._write)

    @property
    def has_room(self) -> bool:
        """Whether more may be added now."""
        return self._room.is_set()

    def read_all(self) -> None:
        """Record that the log was read to its end. Lookups by id become fast soon after."""
        self._write()
        made = self._writer.run(self._index_ids)
        made.add_done_callback(self._noted)

    async def room(self) -> None:
        """Wait until the writer thread has caught up enough to take more."""
        await self._room.wait()

    async def load(self, due_queue: int, until_ms: int, count: int) -> list[tuple[int, Entry]]:
        """Load the earliest messages to try by a time, at most `count`. Waits while the disk is full."""
        while True:
            self._remove()
            self._write()
            taken: list[tuple[int, Entry]] = []
            try:
                taken = await self._take_out(due_queue, until_ms, count)
            except sqlite3.Error as error:
                self._note(error)
                if not self._is_full:
                    raise
            else:
                if not self._open.rows:
                    self._note(None)
            if taken or not self._is_full:
                return taken
            await asyncio.sleep(FULL_SECONDS)

    async def arrived(self) -> None:
        """Wait until running loads have reached their caller: a lookup meanwhile does not see those messages."""
        if self._taking:
            await asyncio.wait(self._taking)

    def is_removing(self, key: int) -> bool:
        """Whether a message is being removed. A load must then drop it too."""
        return key in self._removing

    async def find(self, uniq: bytes) -> list[Entry]:
        """Return the messages with a unique key, except those being loaded; see `arrived`. Raises IndexClosed."""
        unwritten, removing = (*self._writing, self._open), frozenset(self._removing)
        found = {entry.key: entry for batch in unwritten for entry in batch.find(uniq)}
        with self._until_closed():
            found.update({e.key: e for e in await self._finder.run(far_rows.find, self._find_in, uniq)})
        return [entry for key, entry in found.items() if key not in removing]

    def remove(self, due_queue: int, entries: Sequence[Entry]) -> asyncio.Future[int]:
        """Forget messages of a due queue. The future returns how many were here; later lookups do not see them.

        On a full disk they stay, and the store reports them as decided when they are due.
        """
        loop = asyncio.get_running_loop()
        removed: asyncio.Future[int] = loop.create_future()
        if not self._wishes:
            loop.call_later(REMOVE_SECONDS, self._remove)
        self._wishes.append((due_queue, entries, removed))
        self._removing.update([entry.key for entry in entries])
        return removed

    async def page(self, wanted: Wanted, after: Place | None, count: int) -> list[tuple[int, Entry]]:
        """Return messages from `after` on, in the order of time and key, with their times; see `arrived`. Raises IndexClosed."""
        with self._until_closed():
            await self._all_written()
            return await self._in_lister(lambda: far_rows.page(self._list_from, wanted, after, count))

    async def below(self, position: int, first_key: int, end_key: int, count: int) -> list[Entry]:
        """Return messages of a source (its range of keys) whose records lie below a log position. Scans every row."""
        await self._all_written()
        return await self._in_lister(
            lambda: far_rows.below(self._list_from, position, first_key, end_key, count)
        )

    async def close(self, *, keep: bool = False) -> None:
        """End the threads. Delete the file unless the next term may continue with it."""
        self._is_closed = True
        if keep:
            self._write()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._broken.cancel()
        self._remove()  # no caller is left to report it to
        for pool, database in (
            (self._finder, self._find_in), (self._lister, self._list_from), (self._writer, self._write_to),
        ):  # fmt: skip
            with contextlib.suppress(sqlite3.Error, RuntimeError):
                await pool.run(database.close)
                if pool is self._writer:
                    await self._in_writer(give_back)
            pool.close(wait=False)
        if not keep:
            self._remove_file()

    @contextlib.contextmanager
    def _until_closed(self) -> Generator[None]:
        """Raise IndexClosed if `close` began meanwhile: it ends databases and threads, and drops unwritten rows."""
        try:
            yield
        except (sqlite3.ProgrammingError, RuntimeError) as error:
            if self._is_closed:
                raise IndexClosed from error
            raise
        if self._is_closed:
            raise IndexClosed

    def _index_ids(self) -> None:
        far_rows.index_ids(self._write_to)
        give_back()

    def _write(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch = self._open
        if self._broken.done() or not batch.rows:
            return
        self._open = Unwritten()
        self._writing.append(batch)
        done = self._writer.run(far_rows.insert, self._write_to, batch.rows)
        done.add_done_callback(lambda future: self._written(batch, future.exception()))

    def _remove(self) -> None:
        """Queue removals behind what was added before."""
        wishes, self._wishes = self._wishes, []
        if not wishes or self._broken.done():
            for *_, removed in wishes:
                removed.cancel()
            return
        self._write()
        in_file = [(due_queue, entries) for due_queue, entries, _removed in wishes]
        removing = self._writer.run(far_rows.remove, self._write_to, in_file)

        def on_removed(done: asyncio.Future[list[int]]) -> None:
            failure = None if done.cancelled() else done.exception()
            for number, (_due_queue, entries, removed) in enumerate(wishes):
                self._removing.difference_update([entry.key for entry in entries])
                if done.cancelled() or removed.done():
                    removed.cancel()
                elif failure is not None:
                    removed.set_exception(failure)
                    removed.exception()  # the caller need not check: `_noted` does
                else:
                    removed.set_result(done.result()[number])

        removing.add_done_callback(on_removed)
        removing.add_done_callback(self._noted)

    async def _all_written(self) -> None:
        """Wait until everything added or removed before is in the file."""
        self._remove()
        self._write()
        await self._in_writer(lambda: None)

    @property
    def _backlog(self) -> int:
        return len(self._open.rows) + sum([len(batch.rows) for batch in self._writing])

    def _written(self, batch: Unwritten, failure: BaseException | None) -> None:
        self._note(failure)
        self._writing.remove(batch)
        if failure is not None:
            self._open = Unwritten([*batch.rows, *self._open.rows])
            if self._timer is None and not self._broken.done():
                self._timer = asyncio.get_running_loop().call_later(FULL_SECONDS, self._write)
            return
        self.rows_written += len(batch.rows)
        if self._backlog < BACKLOG_ROWS_MAX:
            self._room.set()

    def _noted(self, writing: asyncio.Future[Any]) -> None:
        if not writing.cancelled() and writing.exception() is not None:
            self._note(writing.exception())

    def _note(self, failure: BaseException | None) -> None:
        """Act on the end of a write."""
        is_full = isinstance(failure, sqlite3.Error) and far_rows.is_full(failure)
        if failure is not None and not is_full and not self._broken.done():
            self._broken.set_exception(failure)
        if is_full != self._is_full:
            self._is_full = is_full
            if is_full:
                _log.error("the disk of the due index is full; trying again", path=str(self._path))
            else:
                _log.info("the due index can be written again", path=str(self._path))

    async def _take_out(self, due_queue: int, until_ms: int, count: int) -> list[tuple[int, Entry]]:
        taking = self._writer.run(far_rows.take_out, self._write_to, due_queue, until_ms, count)
        self._taking.add(taking)
        try:
            return await taking
        finally:
            self._taking.discard(taking)

    async def _in_writer(self, work: Callable[[], T]) -> T:
        return await self._writer.run(work)

    async def _in_lister(self, work: Callable[[], T]) -> T:
        return await self._lister.run(work)

    def _remove_file(self) -> None:
        for suffix in ("", "-wal", "-shm", "-journal"):
            Path(f"{self._path}{suffix}").unlink(missing_ok=True)
