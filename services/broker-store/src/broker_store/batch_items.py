"""The messages of a send batch, read and completed as they will be stored. Pure.

Nearly all messages of a batch have just the two properties that every Java client sets: those take a short way.
"""

from collections.abc import Callable
from itertools import repeat
from typing import NamedTuple, cast

from broker_store.special_sends import SPECIAL, refuse_in_batch, without_mark
from broker_store.stamp import Stamp
from gantry_wire.batch import BatchItem, decode_batch
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.limits import PROPERTIES_BYTES_MAX
from gantry_wire.properties import KEYS, TAGS, UNIQ_KEY, parse_properties, tags_code

_UNIQUE_MARK = UNIQ_KEY.encode() + b"\x01"
_AFTER_MARK = len(_UNIQUE_MARK)
_END = 2
_REST = b"\x02WAIT\x01true\x02"
_BEFORE_REST = -len(_REST)
EVEN_KEY_BYTES_MAX = 128
"""Longer unique keys than this are looked at one by one."""


class Item(NamedTuple):
    """One message of a batch, ready to be stored."""

    flag: int
    body: bytes
    properties: bytes
    tags_code: int
    unique_key: str
    keys: str | None


_NewItem = Callable[[type[Item], tuple[int, bytes, bytes, int, str, str | None]], Item]
_new_item = cast("_NewItem", tuple.__new__)


def read_items(body: bytes, sys_flag: int, stamp: Stamp) -> list[Item]:
    """Return the messages of a batch body. Raises MalformedBatch, or RefusedRequest for the first that cannot be stored."""
    members = decode_batch(body)
    even = _read_even(members, stamp.suffix)
    return even if even is not None else _read_each(members, sys_flag, stamp)


def _read_each(members: list[BatchItem], sys_flag: int, stamp: Stamp) -> list[Item]:
    suffix = stamp.suffix
    room = PROPERTIES_BYTES_MAX - len(suffix)
    items: list[Item] = []
    for item in members:
        flag, message_body, raw = item
        if raw.startswith(_UNIQUE_MARK) and raw.endswith(_REST) and raw.count(1) == 2 and len(raw) <= room:
            unique_key = raw[_AFTER_MARK:_BEFORE_REST]
            if unique_key and _END not in unique_key:
                items.append(
                    _new_item(Item, (flag, message_body, raw + suffix, 0, unique_key.decode(), None))
                )
                continue
        items.append(_read(item, sys_flag, stamp))
    return items


def _read_even(members: list[BatchItem], suffix: bytes) -> list[Item] | None:
    """Read messages whose properties are those two, all of one size: looked at together. None when they are not."""
    flags, bodies, raws = zip(*members, strict=True)
    size, count = len(raws[0]), len(raws)
    key_size = size - _AFTER_MARK + _BEFORE_REST
    joined = b"".join(raws)
    if not 0 < key_size <= EVEN_KEY_BYTES_MAX or len(joined) != size * count or not joined.isascii():
        return None
    if joined.count(1) != 2 * count or joined.count(_END) != 2 * count:
        return None
    heads, tails = {raw[:_AFTER_MARK] for raw in raws}, {raw[_BEFORE_REST:] for raw in raws}
    if set(map(len, raws)) != {size} or heads != {_UNIQUE_MARK} or tails != {_REST}:
        return None
    text = joined.decode()
    key_ends = range(size + _BEFORE_REST, len(text), size)
    keys = [text[end - key_size : end] for end in key_ends]
    stamped = [raw + suffix for raw in raws]
    return list(map(_new_item, repeat(Item), zip(flags, bodies, stamped, repeat(0), keys, repeat(None))))


def _read(item: BatchItem, sys_flag: int, stamp: Stamp) -> Item:
    flag, body, raw = item
    properties = parse_properties(raw)
    if not SPECIAL.isdisjoint(properties):
        refuse_in_batch(properties, sys_flag)
        raw = without_mark(raw)
    raw, unique_key = stamp.finish_bytes(raw, properties)
    if len(raw) > PROPERTIES_BYTES_MAX:
        words = f"the properties of a message have {len(raw)} bytes, the limit is {PROPERTIES_BYTES_MAX}"
        raise RefusedRequest(ResponseCode.MESSAGE_ILLEGAL, words)
    tag = properties.get(TAGS)
    return Item(flag, body, raw, tags_code(tag) if tag else 0, unique_key, properties.get(KEYS))
