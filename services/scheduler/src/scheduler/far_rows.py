"""The SQLite file of far messages: its layout, and every statement on it. Called in the threads of `sqlite_index`, never in the loop.

Rows lie in slots of some seconds, a slot's rows side by side, and hold the message as one value: so what comes in writes few pages,
and what becomes due is read and deleted from few. (An index by time beside rows in the order of arrival took 1.7 times the CPU and
wrote twice the bytes at 600,000 rows.)
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

from scheduler.entries import COPIES_MAX, Entry

SLOT_BITS = 13
"""A slot is 8.192 s: a few thousand rows of a million that wait for an hour; and 450 slots are open for writing then."""
LANE_BITS = 48
PAGE_BYTES = 8192
WRITE_CACHE_KIB, READ_CACHE_KIB = 8192, 1024
"""SQLite fills its caches of pages and keeps them full, and takes as much again while it sorts. With 48 MiB a row of a million costs
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
"""Made when all was read: sorting once costs a fraction of keeping it while a million rows come."""
ROWS_PER_STATEMENT = 256
"""SQLite lets the interpreter go for each statement, and waits to have it back: with a row each, longer than it works."""
_INSERT = "INSERT OR REPLACE INTO far VALUES (?, ?, ?, ?, ?, ?)"
_INSERT_MANY = _INSERT + ", (?, ?, ?, ?, ?, ?)" * (ROWS_PER_STATEMENT - 1)
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Entry).decode
_decode_all = msgspec.msgpack.Decoder(list[Entry]).decode
_ARRAY = Struct(">BI")
_ARRAY_32 = 0xDD
TAKEN_KEPT_MS = 30_000
"""So long what was taken out is kept aside: within it, it is settled, or put back. Who is killed before finds it there."""

Row = tuple[int, int, Entry]
"""Lane, time to try it at in ms, message."""


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


def create(path: Path, made_for: str = "") -> sqlite3.Connection:
    """Make the file, good for what `made_for` says. Raises sqlite3.Error."""
    database = _open_to_write(path)
    _make_tables(database, made_for)
    return database


def open_old(path: Path, made_for: str) -> sqlite3.Connection | None:
    """Open the file that is there; None when there is none, or it is not good for this."""
    if not path.exists():
        return None
    database = _open_to_write(path)
    with contextlib.suppress(sqlite3.Error):
        if database.execute("SELECT words FROM made_for").fetchall() == [(made_for,)]:
            return database
    database.close()
    return None


def start_anew(database: sqlite3.Connection, made_for: str) -> None:
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
    """Open the file a second time, for look-ups beside the writing."""
    return _open(path, READ_CACHE_KIB)


def is_full(error: sqlite3.Error) -> bool:
    """Whether a statement failed because the disk is full: it may work later."""
    code = error.sqlite_errorcode or 0
    return code & 0xFF == sqlite3.SQLITE_FULL or code == sqlite3.SQLITE_IOERR_SHMSIZE


@contextlib.contextmanager
def whole(database: sqlite3.Connection) -> Generator[None]:
    """Make what happens inside one transaction: all of it, or nothing."""
    database.execute("BEGIN")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:  # some failures have rolled back by themselves
            database.execute("ROLLBACK")
        raise


def index_ids(database: sqlite3.Connection) -> None:
    """Make look-ups by id quick."""
    database.execute(_INDEX_IDS)


def insert(database: sqlite3.Connection, rows: Sequence[Row]) -> None:
    """Add rows, all or none."""
    with whole(database):
        insert_into(database, rows)


def insert_into(database: sqlite3.Connection, rows: Sequence[Row]) -> None:
    """Add rows to a transaction, in the order they will lie."""
    values = [
        (
            lane << LANE_BITS | (at_ms >> SLOT_BITS if at_ms > 0 else 0),  # as `_slot`
            entry.key, at_ms, entry.due_ms, crc32(entry.uniq) if entry.uniq else None, _encode(entry),
        )
        for lane, at_ms, entry in rows
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


def take_out(database: sqlite3.Connection, lane: int, until_ms: int, count: int) -> list[tuple[int, Entry]]:
    """Remove and return the earliest messages of a lane to be tried until a time, with those times."""
    sql = "SELECT at, slot, key, entry FROM far WHERE slot BETWEEN ? AND ? AND at <= ? ORDER BY at LIMIT ?"
    values = (_slot(lane, 0), _slot(lane, until_ms), until_ms, count)
    with whole(database):
        rows = database.execute(sql, values).fetchall()
        database.executemany("DELETE FROM far WHERE slot = ? AND key = ?", [row[1:3] for row in rows])
    if rows:
        try:
            _set_aside(database, lane, until_ms, [row[3] for row in rows])
        except sqlite3.Error as error:
            if not is_full(error):
                raise
    return [(row[0], _decode(row[3])) for row in rows]


def _set_aside(database: sqlite3.Connection, lane: int, until_ms: int, entries: Sequence[bytes]) -> None:
    """Keep what was taken out for a while, in one piece. A help only: what is missing here is read again from the log."""
    together = b"".join((_ARRAY.pack(_ARRAY_32, len(entries)), *entries))
    with whole(database):
        database.execute("DELETE FROM taken WHERE lane = ? AND until < ?", (lane, until_ms - TAKEN_KEPT_MS))
        database.execute(
            "INSERT INTO taken (lane, until, entries) VALUES (?, ?, ?)", (lane, until_ms, together)
        )


def taken(database: sqlite3.Connection) -> Iterable[Entry]:
    """Yield what was taken out lately, whether it was settled since or not."""
    for (together,) in database.execute("SELECT entries FROM taken"):
        yield from _decode_all(together)


def with_keys(database: sqlite3.Connection, keys: Collection[int]) -> list[Entry]:
    """Return the messages with some keys. Looks at every row."""
    marks = ", ".join("?" * len(keys))
    rows = database.execute(f"SELECT entry FROM far WHERE key IN ({marks})", list(keys))  # noqa: S608 - values are bound
    return [_decode(data) for (data,) in rows]


def find(database: sqlite3.Connection, uniq: bytes) -> list[Entry]:
    """Return the messages with a unique key."""
    rows = database.execute("SELECT entry FROM far WHERE id = ?", (_id(uniq),))
    found = (_decode(data) for (data,) in rows)
    return [entry for entry in found if entry.uniq == uniq][:COPIES_MAX]


def remove(database: sqlite3.Connection, wishes: Iterable[tuple[int, Sequence[Entry]]]) -> list[int]:
    """Delete messages of lanes; returns for each wish how many were there."""
    with whole(database):
        return [sum([_remove(database, lane, entry) for entry in entries]) for lane, entries in wishes]


def _remove(database: sqlite3.Connection, lane: int, entry: Entry) -> int:
    by_time = "DELETE FROM far WHERE slot = ? AND key = ?"
    if database.execute(by_time, (_slot(lane, entry.due_ms), entry.key)).rowcount:
        return 1
    by_id = "DELETE FROM far WHERE id IS ? AND key = ?"  # it was put back to be tried later than it was due
    return database.execute(by_id, (_id(entry.uniq), entry.key)).rowcount


def page(
    database: sqlite3.Connection, wanted: Wanted, after: Place | None, count: int
) -> list[tuple[int, Entry]]:
    """Return the first `count` messages after a place in the order of their times and keys, with those times."""
    found: list[tuple[int, Entry]] = []
    for lane in wanted.lanes:
        of_lane: list[tuple[int, Entry]] = []
        for slot in _slots(database, lane, max(after.at_ms if after else 0, wanted.from_ms or 0)):
            of_lane += _in_slot(database, slot, wanted, after, count)
            if len(of_lane) >= count:
                break
        found += of_lane[:count]
    found.sort(key=lambda row: (row[0], row[1].key))
    return found[:count]


def _slots(database: sqlite3.Connection, lane: int, from_ms: int) -> Iterable[int]:
    """Yield the slots of a lane that hold something, from a time on."""
    slot, end = _slot(lane, from_ms), _slot(lane + 1, 0)
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
    """Return messages of one slot. What SQLite can tell without taking a message apart it narrows beforehand."""
    words, values = ["slot = ?"], list[int | bytes]([slot])
    for column, time_ms in (("due >= ?", wanted.from_ms), ("due < ?", wanted.to_ms)):
        if time_ms is not None:
            words.append(column)
            values.append(time_ms)
    for text in (wanted.topic, wanted.message_key):
        if text is not None:
            words.append("instr(entry, ?) > 0")
            values.append(text.encode())
    if after is not None:
        words.append("(at, key) > (?, ?)")
        values += after
    sql = f"SELECT at, entry FROM far WHERE {' AND '.join(words)} ORDER BY at, key"  # noqa: S608 - values are bound
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
    """Return messages with keys in a range whose records lie below a position of the log."""
    found: list[Entry] = []
    for (data,) in database.execute("SELECT entry FROM far WHERE key >= ? AND key < ?", (first_key, end_key)):
        entry = _decode(data)
        if entry.position < position:
            found.append(entry)
            if len(found) == count:
                break
    return found


def _slot(lane: int, at_ms: int) -> int:
    return lane << LANE_BITS | max(at_ms, 0) >> SLOT_BITS


def _id(uniq: bytes) -> int | None:
    """Return what a unique key is looked up by: a fifth of its size, and told apart by whoever looks it up."""
    return crc32(uniq) if uniq else None


def _open(path: Path, cache_kib: int) -> sqlite3.Connection:
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=32)
    # of a new file; before the cache, which else keeps the number of pages that it would have with SQLite's own size
    database.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    database.execute(f"PRAGMA cache_size = -{cache_kib}")
    database.execute("PRAGMA synchronous = OFF")
    return database
