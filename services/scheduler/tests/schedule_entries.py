"""Waiting messages for unit tests."""

from scheduler.index.entries import Entry


def entry(key, due_ms, uniq=b""):
    """Return a message. Its unique key is `u` plus the key unless given."""
    return Entry(due_ms, key, key * 10, "t", 0, uniq or b"u%d" % key, b"")
