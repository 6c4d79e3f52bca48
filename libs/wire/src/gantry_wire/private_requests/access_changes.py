"""Bodies of 9055: the entries of access control that came to a store after a version. Layout only.

The store holds a request without news until there are some, at most `waitMs`. Its answer is then empty.
"""

from __future__ import annotations

import msgspec

WAIT_MS_MAX = 30_000
PAGE_BYTES_MAX = 1024 * 1024
"""Bytes of records in one answer, unless a single one is larger."""


class AskAccessChanges(msgspec.Struct, kw_only=True, rename="camel"):
    """9055. `run` and `version` are those of the last answer; empty and 0 for all entries."""

    run: str = ""
    version: int = 0
    wait_ms: int = 0


class AccessChanges(msgspec.Struct, kw_only=True, rename="camel"):
    """Answer of 9055. A reader whose `run` was another one gets all entries from the first."""

    run: str
    """Names this run of the store: versions of another run mean nothing."""
    version: int
    """Ask with this next."""
    more: bool = False
    """Whether the store has further entries now."""
    entries: list[msgspec.Raw] = []
    """Each as `gantry_access.entries.entry` encodes it."""
