"""JSON bodies of 9056, a change of users, policies and tokens: the gateway asks one store, which stamps and stores the entries.

The other stores and all followers read them from there. A secret travels sealed, a token as its hash. Records are passed on as they are.
See docs/protocol.md, "Access control".
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from gantry_wire.errors import MalformedBody

ENTRIES_MAX = 1000
"""Entries of one change."""
NAME_CHARS_MAX = 255
BY_CHARS_MAX = 512
CONFLICT = "ACCESS_CONFLICT"
"""`gantryCode` of a change made from another entry than the stored one. Nothing of it was stored: read again, then decide again."""
DELETED = b"null"
"""The record that deletes an entry."""

EntryKind = Literal["user", "policies", "token"]
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_CHARS_MAX)]
_Stamp = Annotated[int, msgspec.Meta(ge=0, le=2**62)]


class WantedEntry(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """One entry as it shall be, without a stamp."""

    kind: EntryKind
    name: _Name
    """Of a user or the policies of one: the user's name. Of a token: its id."""
    record: msgspec.Raw
    """The record as `gantry_access` encodes it; null deletes the entry."""
    made_from_ms: _Stamp | None = None
    """The stamp of the entry that the change was made from; 0: there was none. None: it replaces whatever is stored."""


class AccessChange(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """9056: store all entries, or none."""

    entries: Annotated[list[WantedEntry], msgspec.Meta(min_length=1, max_length=ENTRIES_MAX)]
    by: Annotated[str, msgspec.Meta(max_length=BY_CHARS_MAX)] = ""
    """Which user changes something, and from which address: for the audit log."""


class AccessChanged(msgspec.Struct, rename="camel", kw_only=True):
    """Reply of 9056, once the entries are durable."""

    entries: list[msgspec.Raw]
    """The stamped entries as `gantry_access.entries` encodes them, in the order of the request."""


encode_change = msgspec.json.Encoder().encode
"""Returns the body of a request or of a reply."""


def decode_change(body: bytes) -> AccessChange:
    """Return the request of a body. Raises MalformedBody."""
    try:
        return msgspec.json.decode(body, type=AccessChange)
    except (ValueError, RecursionError) as error:
        raise MalformedBody(f"the change of users cannot be read: {error}") from error


def decode_changed(body: bytes) -> AccessChanged:
    """Return the reply of a body. Raises MalformedBody."""
    try:
        return msgspec.json.decode(body, type=AccessChanged)
    except (ValueError, RecursionError) as error:
        raise MalformedBody(f"the answer to a change of users cannot be read: {error}") from error
