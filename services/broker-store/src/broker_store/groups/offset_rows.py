"""The records of GANTRY_SYS_COMMITTED: which offsets groups have committed. Pure.

A record holds offsets that moved or were forgotten since the record before it. A *dump* is a series of records with every offset. It makes
all records before it superfluous, so that retention may delete them. The body is JSON:

    {"number":7,"rows":[["topic","group",{"0":12,"1":null}], …],"dump":[5,3,true],"origin":["4f…",""]}

`null` says that the offset is forgotten. `dump`, only in a dump: the number of its first record, the place of this record in it from 1 on,
and whether it is the last one. `origin`, only in a dump that takes over the files of a directory: what identifies the file of offsets, and
the journal of an earlier version (empty: there was none).
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from gantry_wire.errors import MalformedBody

Key = tuple[str, str]
"""(topic, group)."""

ROWS_BYTES_MAX = 64 * 1024
"""A record is closed once its rows reach about this size."""
OFFSETS_PER_PIECE = 1000
"""Offsets of one group in one topic that stay together: about 15 KB."""
_OFFSET_BYTES = 16
"""Usual size of an offset with its queue id."""
_NAMES_BYTES = 12
"""What surrounds the names of a row."""


class Row(NamedTuple):
    """Offsets of a group in a topic by queue id. None: forgotten."""

    topic: str
    group: str
    offsets: Mapping[int, int | None]


class Piece(NamedTuple):
    """Offsets to be written, without their values."""

    topic: str
    group: str
    queue_ids: tuple[int, ...]

    @property
    def size(self) -> int:
        """Its size in a record, in bytes, about."""
        return len(self.topic) + len(self.group) + _NAMES_BYTES + len(self.queue_ids) * _OFFSET_BYTES


class DumpPart(NamedTuple):
    """The place of a record in a dump."""

    first: int
    """The number of the dump's first record."""
    part: int
    """From 1 on."""
    is_last: bool


class Origin(NamedTuple):
    """The files that a dump takes over."""

    file: str
    """Digest of consumerOffset.json, empty if there was none."""
    journal: str
    """Digest of the journal of an earlier version, empty if there was none."""


NO_ORIGIN = Origin("", "")


class OffsetRows(msgspec.Struct, omit_defaults=True):
    """The content of one record."""

    number: int
    """Grows from record to record."""
    rows: list[tuple[str, str, dict[int, int | None]]]
    """Topic, group, and offsets by queue id."""
    dump: tuple[int, int, bool] | None = None
    origin: tuple[str, str] | None = None


_decode = msgspec.json.Decoder(OffsetRows).decode


def encode_rows(rows: OffsetRows) -> bytes:
    """Return the body of a record."""
    return msgspec.json.encode(rows)


def decode_rows(body: bytes) -> OffsetRows:
    """Return the content of a record. Raises MalformedBody."""
    try:
        return _decode(body)
    except msgspec.DecodeError as error:
        raise MalformedBody(f"not a record of offsets: {error}") from error


def pieces_of(keys: Mapping[Key, tuple[int, ...]]) -> Iterator[Piece]:
    """Yield offsets in pieces that each fit into one record."""
    for (topic, group), queue_ids in keys.items():
        for start in range(0, len(queue_ids), OFFSETS_PER_PIECE):
            yield Piece(topic, group, queue_ids[start : start + OFFSETS_PER_PIECE])
