"""One entry: the latest content of a user, of a subject's policies or of a token, or its deletion, with a time.

Stores keep entries as messages of a system topic and exchange them. The greatest stamp wins, so all of a cluster agree, in whatever order
entries arrive. As JSON: `{"v":1,"kind":"user","name":"alice","stampMs":1700000000000,"record":{…}}`; `record` is null for a deletion.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

import msgspec

from gantry_access.errors import UnknownRecordVersion, UnreadableRecord

VERSION: Final = 1
NAME_CHARACTERS_MAX = 255
DELETED = b"null"
"""The record of a deletion, as JSON."""


class Kind(Enum):
    """What an entry is about."""

    USER = "user"
    POLICIES = "policies"
    """Named by the user whose policies they are."""
    TOKEN = "token"  # noqa: S105 - a kind
    """Named by the token's id."""


class Key(NamedTuple):
    """What an entry replaces: the earlier entry of the same key."""

    kind: Kind
    name: str


class Entry(NamedTuple):
    """One entry. `record` is the content as `stored_records` or `token_records` encode it; None: deleted."""

    kind: Kind
    name: str
    stamp_ms: int
    """Wall time of the change in ms, or one more than that of the entry before it."""
    record: bytes | None

    @property
    def key(self) -> Key:
        """What this entry replaces."""
        return Key(self.kind, self.name)

    def replaces(self, other: Entry | None) -> bool:
        """Whether this entry counts, and not `other` of the same key. Of two changes at one time a deletion wins, so a right is rather lost."""
        if other is None:
            return True
        if self.stamp_ms != other.stamp_ms:
            return self.stamp_ms > other.stamp_ms
        if self.record is None or other.record is None:
            return self.record is None and other.record is not None
        return self.record > other.record


class _EntryRecord(msgspec.Struct, kw_only=True, rename="camel", forbid_unknown_fields=True):
    v: int
    kind: Kind
    name: str
    stamp_ms: int
    record: msgspec.Raw


class _Versioned(msgspec.Struct):
    v: int


def encode_entry(entry: Entry) -> bytes:
    """Return an entry as JSON."""
    raw = msgspec.Raw(DELETED if entry.record is None else entry.record)
    return msgspec.json.encode(
        _EntryRecord(v=VERSION, kind=entry.kind, name=entry.name, stamp_ms=entry.stamp_ms, record=raw)
    )


def decode_entry(data: bytes) -> Entry:
    """Return the entry of a JSON text; its record is not read yet. Raises UnreadableRecord, and UnknownRecordVersion for a later form."""
    try:
        version = msgspec.json.decode(data, type=_Versioned).v
        if version != VERSION:
            raise UnknownRecordVersion(
                f"the entry has version {version}, this process reads {VERSION} only: update it"
            )
        found = msgspec.json.decode(data, type=_EntryRecord)
    except (ValueError, RecursionError) as error:
        raise UnreadableRecord(f"the entry is unreadable: {error}") from error
    if not 0 < len(found.name) <= NAME_CHARACTERS_MAX or found.stamp_ms < 0:
        raise UnreadableRecord("the entry is unreadable: its name or its stamp is out of bounds")
    record = bytes(found.record)
    return Entry(found.kind, found.name, found.stamp_ms, None if record == DELETED else record)
