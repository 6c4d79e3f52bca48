"""Waiting messages for the tests of the scheduler's cores."""

from scheduler.entries import Entry


def entry(key, due_ms, uniq=b""):
    """Return a message; its unique key is `u` and the key unless given."""
    return Entry(due_ms, key, key * 10, "t", 0, uniq or b"u%d" % key, b"")
