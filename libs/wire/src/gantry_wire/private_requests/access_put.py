"""Body of 9056: entries of access control that a store is to have. Layout only."""

from __future__ import annotations

import msgspec


class AccessPut(msgspec.Struct, kw_only=True, rename="camel"):
    """9056. Each entry must replace the one that the store has; otherwise none is stored, and the answer is 604 `OUTDATED`."""

    entries: list[msgspec.Raw]
    """Each as `gantry_access.entries.entry` encodes it."""
    user: str = ""
    """For whom a service sends them. Empty: for itself."""
    address: str = ""
    """Where that user's request came from."""
