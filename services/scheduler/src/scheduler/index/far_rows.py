"""Holds the layout of the SQLite file of far messages and every statement on it.

Runs in the threads of `sqlite_index`, never in the loop.

Rows lie in slots of some seconds, the rows of a slot side by side, each message as one value. Inserts write few
pages, and due messages are read and deleted from few. (An index by time beside rows in arrival order took 1.7 times
the CPU and wrote twice the bytes at 600,000 rows.)
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Collection, Generator, Iterable, Sequence
from itertools import chain
from pathlib import Path
from struct import Struct
from typing import NamedTuple
from zlib import crc32

import msgspec

from scheduler.index.entries import COPIES_MAX, Entry

SLOT_BITS = 13
"""A slot is 8.192 s. With a million rows over an hour it holds a few thousand rows, and 450 slots are written to."""
DUE_QUEUE_BITS = 48
PAGE_BYTES = 8192
WRITE_CACHE_KIB, READ_CACHE_KIB = 8192, 1024
"""SQLite fills its page caches, keeps them full, and needs as much again while it sorts. With 48 MiB a row of a million costs
5.5 us instead of 6.6, and one added later as much."""

_SCHEMA = """
PRAGMA journal_mode = WAL;
CREATE TABLE far (
    slot INTEGER NOT NULL, key INTEGER NOT NULL, at INTEGER NOT NULL, due INTEGER NOT NULL, id INTEGER, entry BLOB NOT NULL,
    PRIMARY KEY (slot, key)
) WITHOUT ROWID;
CREATE TABLE taken (number INTEGER PRIMARY KEY, lane INTEGER NOT NULL, until INTEGER NOT NULL, entries BLOB NOT NULL);
CREATE TABLE cancels (key INTEGER PRIMARY KEY);
CREATE TABLE made_for (words TEXT NOT NULL);
"""
_INDEX_IDS = "CREATE INDEX IF NOT EXISTS far_id ON far (id)"
"""Created after the log was read: sorting once costs a fraction of maintaining it through a million inserts."""
ROWS_PER_STATEMENT = 256
"""SQLite releases the GIL for each statement. With one row each, waiting for the GIL takes longer than the work."""
_INSERT = "INSERT OR REPLACE INTO far VALUES (?, ?, ?, ?, ?, ?)"
_INSERT_MANY = _INSERT + ", (?, ?, ?, ?, ?, ?)" * (ROWS_PER_STATEMENT - 1)
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Entry).decode
_decode_all = msgspec.msgpack.Decoder(list[Entry]).decode
_ARRAY = Struct(">BI")
_ARRAY_32 = 0xDD
TAKEN_KEPT_MS = 30_000
"""How long loaded messages are kept aside. They are settled or put back within it; after a kill they are restored."""

Row = tuple[int, int, Entry]
"""Lane, time to try it at in ms, message."""


class Place(NamedTuple):
    """The start of the next page of a list: after this time and key."""

    at_ms: int
    key: int


class Wanted(NamedTuple):
    """The messages a list shows; None does not filter."""

    due_queues: tuple[int, ...]
    topic: str | None = None
    message_key: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None


def create(path: Path, made_for: str = "") -> sqlite3.Connection:
    """Create the file for `made_for`. Raises sqlite3.Error."""
    database = _open_to_write(path)
    _make_tables(database, made_for)
    return database


def open_old(path: Path, made_for: str) -> sqlite3.Connection | None:
    """Open the existing file; None when there is none or it does not match `made_for`."""
    if not path.exists():
        return None
    database = _open_to_write(path)
    with contextlib.suppress(sqlite3.Error):
        if database.execute("SELECT words FROM made_for").fetchall() == [(made_for,)]:
            return database
    database.close()
    return None


def reset(database: sqlite3.Connection, made_for: str) -> None:
    """Forget everything."""
    for table in ("far", "taken", "cancels", "made_for"):
        database.execute(f"DROP TABLE IF EXISTS {table}")
    _make_tables(database, made_for)


def _make_tables(database: sqlite3.Connection, made_for: str) -> None:
    database.executescript(_SCHEMA)
    database.execute("INSERT INTO made_for VALUES (?)", (made_for,))


def _open_to_write(path: Path) -> sqlite3.Connection:
    database = _open(path, WRITE_CACHE_KIB)
    database.execute("PRAGMA wal_autocheckpoint = 4000")
    return database


def open_to_read(path: Path) -> sqlite3.Connection:
    """Open the file again for lookups beside the writer."""
    return _open(path, READ_CACHE_KIB)


def is_full(error: sqlite3.Error) -> bool:
    """Whether a statement failed because the disk is full. It may succeed later."""
    code = error.sqlite_errorcode or 0
    return code & 0xFF == sqlite3.SQLITE_FULL or code == sqlite3.SQLITE_IOERR_SHMSIZE


@contextlib.contextmanager
def whole(database: sqlite3.Connection) -> Generator[None]:
    """Run the body in one transaction: all of it or nothing."""
    database.execute("BEGIN")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:  # some failures have already rolled back
            database.execute("ROLLBACK")
        raise


def index_ids(database: sqlite3.Connection) -> None:
    """Index the ids, so that lookups by id are fast."""
    database.execute(_INDEX_IDS)


def insert(database: sqlite3.Connection, rows: Sequence[Row]) -> None:
    """Add rows, all or none."""
    with whole(database):
        insert_into(database, rows)


def insert_into(database: sqlite3.Connection, rows: Sequence[Row]) -> None:
    """Add rows to a transaction, in slot order."""
    values = [
        (
            due_queue << DUE_QUEUE_BITS | (at_ms >> SLOT_BITS if at_ms > 0 else 0),  # as `_slot`
            entry.key, at_ms, entry.due_ms, crc32(entry.uniq) if entry.uniq else None, _encode(entry),
        )
        for due_queue, at_ms, entry in rows
    ]  # fmt: skip
    values.sort()
    even = len(values) - len(values) % ROWS_PER_STATEMENT
    for first in range(0, even, ROWS_PER_STATEMENT):
        together = values[first : first + ROWS_PER_STATEMENT]
        database.execute(_INSERT_MANY, list(chain.from_iterable(together)))
    database.executemany(_INSERT, values[even:])
    cancels = [(entry.key,) for _, _, entry in rows if entry.cancels]
    if cancels:
        database.executemany("INSERT OR IGNORE INTO cancels VALUES (?)", cancels)


def take_out(
    database: sqlite3.Connection, due_queue: int, until_ms: int, count: int
) -> list[tuple[int, Entry]]:
    """Remove and return the earliest messages of a due queue to try by a time, with their times."""
    sql = "SELECT at, slot, key, entry FROM far WHERE slot BETWEEN ? AND ? AND at <= ? ORDER BY at LIMIT ?"
    values = (_slot(due_queue, 0), _slot(due_queue, until_ms), until_ms, count)
    with whole(database):
        rows = database.execute(sql, values).fetchall()
        database.executemany("DELETE FROM far WHERE slot = ? AND key = ?", [row[1:3] for row in rows])
    if rows:
        try:
            _keep_aside(database, due_queue, until_ms, [row[3] for row in rows])
        except sqlite3.Error as error:
            if not is_full(error):
                raise
    return [(row[0], _decode(row[3])) for row in rows]


def _keep_aside(
    database: sqlite3.Connection, due_queue: int, until_ms: int, entries: Sequence[bytes]
) -> None:
    """Keep loaded messages aside for a while, in one value. Best effort: missing ones are read from the log."""
    together = b"".join((_ARRAY.pack(_ARRAY_32, len(entries)), *entries))
    with whole(database):
        database.execute(
            "DELETE FROM taken WHERE lane = ? AND until < ?", (due_queue, until_ms - TAKEN_KEPT_MS)
        )
        database.execute(
            "INSERT INTO taken (lane, until, entries) VALUES (?, ?, ?)", (due_queue, until_ms, together)
        )


def taken(database: sqlite3.Connection) -> Iterable[Entry]:
    """Yield recently loaded messages, settled or not."""
    for (together,) in database.execute("SELECT entries FROM taken"):
        yield from _decode_all(together)


def with_keys(database: sqlite3.Connection, keys: Collection[int]) -> list[Entry]:
    """Return the messages with some keys. Scans every row."""
    marks = ", ".join("?" * len(keys))
    rows = database.execute(f"SELECT entry FROM far WHERE key IN ({marks})", list(keys))  # noqa: S608 - values are bound
    return [_decode(data) for (data,) in rows]


def find(database: sqlite3.Connection, uniq: bytes) -> list[Entry]:
    """Return the messages with a unique key."""
    rows = database.execute("SELECT entry FROM far WHERE id = ?", (_id(uniq),))
    found = (_decode(data) for (data,) in rows)
    return [entry for entry in found if entry.uniq == uniq][:COPIES_MAX]


def remove(database: sqlite3.Connection, wishes: Iterable[tuple[int, Sequence[Entry]]]) -> list[int]:
    """Delete messages of due queues. Returns how many each request deleted."""
    with whole(database):
        return [
            sum([_remove(database, due_queue, entry) for entry in entries]) for due_queue, entries in wishes
        ]


def _remove(database: sqlite3.Connection, due_queue: int, entry: Entry) -> int:
    by_time = "DELETE FROM far WHERE slot = ? AND key = ?"
    if database.execute(by_time, (_slot(due_queue, entry.due_ms), entry.key)).rowcount:
        return 1
    by_id = "DELETE FROM far WHERE id IS ? AND key = ?"  # it was put back with a later time than its due time
    return database.execute(by_id, (_id(entry.uniq), entry.key)).rowcount


def page(
    database: sqlite3.Connection, wanted: Wanted, after: Place | None, count: int
) -> list[tuple[int, Entry]]:
    """Return `count` messages after a place in the order of time and key, with their times."""
    found: list[tuple[int, Entry]] = []
    for due_queue in wanted.due_queues:
        of_due_queue: list[tuple[int, Entry]] = []
        for slot in _slots(database, due_queue, max(after.at_ms if after else 0, wanted.from_ms or 0)):
            of_due_queue += _in_slot(database, slot, wanted, after, count)
            if len(of_due_queue) >= count:
                break
        found += of_due_queue[:count]
    found.sort(key=lambda row: (row[0], row[1].key))
    return found[:count]


def _slots(database: sqlite3.Connection, due_queue: int, from_ms: int) -> Iterable[int]:
    """Yield the non-empty slots of a due queue, from a time on."""
    slot, end = _slot(due_queue, from_ms), _slot(due_queue + 1, 0)
    while True:
        row = database.execute(
            "SELECT slot FROM far WHERE slot >= ? AND slot < ? ORDER BY slot LIMIT 1", (slot, end)
        ).fetchone()
        if row is None:
            return
        yield row[0]
        slot = row[0] + 1


def _in_slot(
    database: sqlite3.Connection, slot: int, wanted: Wanted, after: Place | None, count: int
) -> list[tuple[int, Entry]]:
    """Return messages of one slot. SQLite filters what it can without decoding a message."""
    conditions, values = ["slot = ?"], list[int | bytes]([slot])
    for column, time_ms in (("due >= ?", wanted.from_ms), ("due < ?", wanted.to_ms)):
        if time_ms is not None:
            conditions.append(column)
            values.append(time_ms)
    for text in (wanted.topic, wanted.message_key):
        if text is not None:
            conditions.append("instr(entry, ?) > 0")
            values.append(text.encode())
    if after is not None:
        conditions.append("(at, key) > (?, ?)")
        values += after
    sql = f"SELECT at, entry FROM far WHERE {' AND '.join(conditions)} ORDER BY at, key"  # noqa: S608 - values are bound
    found: list[tuple[int, Entry]] = []
    for at_ms, data in database.execute(sql, values):
        entry = _decode(data)
        if wanted.topic not in (None, entry.topic):
            continue
        if wanted.message_key is None or wanted.message_key.encode() in entry.keys.split(b" "):
            found.append((at_ms, entry))
            if len(found) == count:
                break
    return found


def below(
    database: sqlite3.Connection, position: int, first_key: int, end_key: int, count: int
) -> list[Entry]:
    """Return messages in a range of keys whose records lie below a log position."""
    found: list[Entry] = []
    for (data,) in database.execute("SELECT entry FROM far WHERE key >= ? AND key < ?", (first_key, end_key)):
        entry = _decode(data)
        if entry.position < position:
            found.append(entry)
            if len(found) == count:
                break
    return found


def _slot(due_queue: int, at_ms: int) -> int:
    return due_queue << DUE_QUEUE_BITS | max(at_ms, 0) >> SLOT_BITS


def _id(uniq: bytes) -> int | None:
    """Return the lookup value of a unique key: a fifth of its size. The caller tells collisions apart."""
    return crc32(uniq) if uniq else None


def _open(path: Path, cache_kib: int) -> sqlite3.Connection:
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=32)
    # Set before the cache size, which SQLite otherwise computes from its own page size.
    database.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    database.execute(f"PRAGMA cache_size = -{cache_kib}")
    database.execute("PRAGMA synchronous = OFF")
    return database
