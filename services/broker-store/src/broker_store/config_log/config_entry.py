"""One entry of a configuration table: the value of a topic, a group, what a group may not read, or a setting; or its deletion.

As JSON: `{"v":1,"kind":"topic","name":"orders","value":{…},"dataVersion":{"counter":7,"stateVersion":0,"timestamp":1700000000000}}`;
`value` is null for a deletion. `dataVersion` is the table's after the change.
"""

from enum import Enum
from typing import Final, NamedTuple

import msgspec

from gantry_wire.bodies.cluster import DataVersion

FORMAT: Final = 1
_DELETED = b"null"


class UnreadableEntry(ValueError):
    """A record is no entry of this version."""


class Kind(Enum):
    """What an entry is about."""

    TOPIC = "topic"
    GROUP = "group"
    FORBIDDEN = "forbidden"
    """What a group may not read: topic → bits. Named by the group."""
    SETTING = "setting"
    """A setting that code 25 changed, under RocketMQ's key."""


class Table(Enum):
    """The tables, each with a DataVersion and a file."""

    TOPICS = "topics"
    GROUPS = "groups"
    SETTINGS = "settings"


TABLE_OF: Final = {
    Kind.TOPIC: Table.TOPICS,
    Kind.GROUP: Table.GROUPS,
    Kind.FORBIDDEN: Table.GROUPS,
    Kind.SETTING: Table.SETTINGS,
}


class Key(NamedTuple):
    """What an entry replaces: the earlier entry of the same key."""

    kind: Kind
    name: str


class Stamp(NamedTuple):
    """A table's DataVersion after a change."""

    counter: int
    state_version: int
    timestamp: int

    @property
    def data_version(self) -> DataVersion:
        """The same in RocketMQ's form."""
        return DataVersion(counter=self.counter, state_version=self.state_version, timestamp=self.timestamp)


class ConfigEntry(NamedTuple):
    """One entry. `value` is JSON; None: deleted."""

    kind: Kind
    name: str
    value: bytes | None
    stamp: Stamp

    @property
    def key(self) -> Key:
        """What this entry replaces."""
        return Key(self.kind, self.name)


def stamp_of(version: DataVersion) -> Stamp:
    """Return a DataVersion as a stamp."""
    return Stamp(version.counter, version.state_version, version.timestamp)


class _EntryRecord(msgspec.Struct, kw_only=True, rename="camel"):
    v: int
    kind: Kind
    name: str
    value: msgspec.Raw
    data_version: DataVersion


def encode_entry(entry: ConfigEntry) -> bytes:
    """Return an entry as JSON."""
    value = msgspec.Raw(_DELETED if entry.value is None else entry.value)
    return msgspec.json.encode(
        _EntryRecord(
            v=FORMAT, kind=entry.kind, name=entry.name, value=value, data_version=entry.stamp.data_version
        )
    )


def decode_entry(data: bytes) -> ConfigEntry:
    """Return the entry of a JSON text. Raises UnreadableEntry."""
    try:
        found = msgspec.json.decode(data, type=_EntryRecord)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnreadableEntry(f"the entry is unreadable: {error}") from error
    if found.v != FORMAT:
        raise UnreadableEntry(f"the entry has version {found.v}, this process reads {FORMAT} only")
    value = bytes(found.value)
    return ConfigEntry(
        found.kind, found.name, None if value == _DELETED else value, stamp_of(found.data_version)
    )
