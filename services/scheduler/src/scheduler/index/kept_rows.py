"""Takes over the file of far messages from an earlier term, even a killed one. Holds every statement for that.

The file is never synced, so it is valid only while the machine runs; `made_for` identifies the run. `resuming` checks
its rows against the log. Runs in the writer thread.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from gantry_chassis.machine.environment import Environment
from scheduler.index import far_rows
from scheduler.index.due_queue_names import due_queue_of
from scheduler.index.entries import OFFSET_BITS, OFFSET_MASK, Entry, key_of
from scheduler.index.known_offsets import Compared, QueueState, compare

LAYOUT = 1
"""Raise it with every change of the tables, of `Entry`, or of its decoding. Older files are then rebuilt."""


class Kept(NamedTuple):
    """What a kept file holds."""

    queues: dict[int, Compared]
    """By source; sources without rows are missing."""
    counts: dict[int, int]
    """Rows by due queue."""
    witnesses: list[Entry]
    """The first and the last row of each source. If the log has both unchanged, it has all rows between them."""


def made_for(broker: str, level_ms: Sequence[int], environment: Environment) -> str:
    """Return the identity of a file created now. It matches no other file where the boot id is unknown."""
    run = environment.boot_id or environment.secret_bytes(16).hex()
    return json.dumps([LAYOUT, run, broker, list(level_ms)])


def keep(database: sqlite3.Connection, states: Mapping[int, QueueState]) -> Kept | None:
    """Bring the rows in line with what is decided. Returns None when they do not match the store. Raises sqlite3.Error."""
    with far_rows.whole(database):
        _take_back(database, states)
        # A cancel record also waits in memory for its message, so it is read again.
        database.execute("DELETE FROM far WHERE key IN (SELECT key FROM cancels)")
        database.execute("DELETE FROM cancels")
        queues = _compare(database, states)
        if queues is None:
            return None
        _delete(database, (key_of(source, offset) for source, one in queues.items() for offset in one.dead))
        by_due_queue = f"SELECT slot >> {far_rows.DUE_QUEUE_BITS}, count(*) FROM far GROUP BY 1"  # noqa: S608 - a constant
        counts = dict(database.execute(by_due_queue))
        ends = {key_of(source, offset) for source, one in queues.items() for offset in (one.first, one.last) if offset >= 0}  # fmt: skip
        return Kept(queues, counts, far_rows.with_keys(database, ends))


def _compare(database: sqlite3.Connection, states: Mapping[int, QueueState]) -> dict[int, Compared] | None:
    queues: dict[int, Compared] = {}
    rows = database.execute("SELECT key FROM far ORDER BY key")
    for source, keys in groupby((key for (key,) in rows), lambda key: key >> OFFSET_BITS):
        compared = compare((key & OFFSET_MASK for key in keys), states[source]) if source in states else None
        if compared is None:
            rows.close()
            return None
        queues[source] = compared
    return queues


def _take_back(database: sqlite3.Connection, states: Mapping[int, QueueState]) -> None:
    """Restore rows that were taken out recently and are neither decided nor present."""
    taken = {
        entry.key: entry
        for entry in far_rows.taken(database)
        if not entry.cancels and entry.source in states and not states[entry.source].is_settled(entry.offset)
    }
    database.execute("DELETE FROM taken")
    if not taken:
        return
    _name(database, taken)
    for (key,) in database.execute("SELECT key FROM far WHERE key IN (SELECT key FROM named)").fetchall():
        del taken[key]
    far_rows.insert_into(database, [(due_queue_of(entry), entry.due_ms, entry) for entry in taken.values()])


def _delete(database: sqlite3.Connection, keys: Iterable[int]) -> None:
    if _name(database, keys):
        database.execute("DELETE FROM far WHERE key IN (SELECT key FROM named)")


def _name(database: sqlite3.Connection, keys: Iterable[int]) -> int:
    """Put keys into a temporary table, so that statements find each without a scan. Returns their count."""
    database.execute("CREATE TEMP TABLE IF NOT EXISTS named (key INTEGER PRIMARY KEY)")
    database.execute("DELETE FROM named")
    return database.executemany("INSERT INTO named VALUES (?)", ((key,) for key in keys)).rowcount
