"""The messages of a send batch, read and completed as they will be stored. Pure.

Nearly all messages of a batch have just the two properties that every Java client sets: those take a short way.
"""

from collections.abc import Sequence
from itertools import compress
from typing import NamedTuple

from broker_store.commit.special_sends import SPECIAL, refuse_in_batch
from broker_store.commit.stamp import (
    KEY_AT,
    KEY_END,
    PLAIN_BYTES_MAX,
    PLAIN_HEAD,
    PLAIN_TAIL,
    Stamp,
    plain_unique_key,
)
from gantry_wire.batch import BatchColumns, decode_columns
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.limits import PROPERTIES_BYTES_MAX
from gantry_wire.properties import KEYS, TAGS, parse_properties, tags_code

_HEAD, _TAIL = PLAIN_HEAD.decode(), PLAIN_TAIL.decode()
_BETWEEN = _TAIL + _HEAD


class Items(NamedTuple):
    """The messages of a batch, ready to be stored: each column in their order."""

    flags: Sequence[int]
    bodies: Sequence[bytes]
    properties: Sequence[bytes]
    tags_codes: Sequence[int]
    unique_keys: Sequence[str]
    keys: Sequence[str | None]
    """Further keys of each (KEYS); empty when none has any."""

    def only(self, chosen: Sequence[bool]) -> "Items":
        """Return those messages that are chosen."""
        return Items(
            tuple(compress(self.flags, chosen)),
            tuple(compress(self.bodies, chosen)),
            tuple(compress(self.properties, chosen)),
            tuple(compress(self.tags_codes, chosen)),
            tuple(compress(self.unique_keys, chosen)),
            tuple(compress(self.keys, chosen)),
        )


_Item = tuple[int, bytes, bytes, int, str, str | None]


def read_items(body: bytes, sys_flag: int, stamp: Stamp) -> Items:
    """Return the messages of a batch body. Raises MalformedBatch, or RefusedRequest for the first that cannot be stored."""
    members = decode_columns(body)
    even = _read_even(members, stamp.suffix)
    return even if even is not None else _read_each(members, sys_flag, stamp)


def _read_each(members: BatchColumns, sys_flag: int, stamp: Stamp) -> Items:
    suffix = stamp.suffix
    room = PROPERTIES_BYTES_MAX - len(suffix)
    rows: list[_Item] = []
    for flag, body, raw in zip(*members, strict=True):
        unique_key = plain_unique_key(raw) if len(raw) <= room else ""
        if unique_key:
            rows.append((flag, body, raw + suffix, 0, unique_key, None))
        else:
            rows.append(_read(flag, body, raw, sys_flag, stamp))
    columns = Items(*zip(*rows, strict=True))
    return columns if any(columns.keys) else columns._replace(keys=())


def _read_even(members: BatchColumns, suffix: bytes) -> Items | None:
    """Read messages whose properties are plain, all of one size: looked at together. None when they are not."""
    raws = members.properties
    size, count, joined = len(raws[0]), len(raws), b"".join(raws)
    room = min(PLAIN_BYTES_MAX, PROPERTIES_BYTES_MAX - len(suffix))
    if not 0 < size <= room or len(set(map(len, raws))) != 1 or not joined.isascii():
        return None
    text = joined.decode()
    ends = range(size + KEY_END, len(text), size)
    key_size = size - KEY_AT + KEY_END
    keys = [text[end - key_size : end] for end in ends] if key_size > 0 else []
    if not "".join(keys).isalnum() or _HEAD + _BETWEEN.join(keys) + _TAIL != text:
        return None
    nothing = (0,) * count
    return Items(members.flags, members.bodies, [raw + suffix for raw in raws], nothing, keys, ())


def _read(flag: int, body: bytes, raw: bytes, sys_flag: int, stamp: Stamp) -> _Item:
    properties = parse_properties(raw)
    if not SPECIAL.isdisjoint(properties):
        refuse_in_batch(properties, sys_flag)
    raw, unique_key = stamp.finish_bytes(raw, properties)
    if len(raw) > PROPERTIES_BYTES_MAX:
        words = f"the properties of a message have {len(raw)} bytes, the limit is {PROPERTIES_BYTES_MAX}"
        raise RefusedRequest(ResponseCode.MESSAGE_ILLEGAL, words)
    tag = properties.get(TAGS)
    return flag, body, raw, tags_code(tag) if tag else 0, unique_key, properties.get(KEYS)
