"""The messages of a send batch, read and completed as they will be stored. Pure.

A batch is a few thousand messages per read of a socket, so what no message of it holds is looked for once in the whole body.
"""

from collections.abc import Callable
from typing import NamedTuple, cast

from broker_store.refused_yet import SPECIAL, refuse_special
from broker_store.stamp import ADDED, Stamp
from gantry_wire.batch import BatchItem, decode_batch
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.limits import PROPERTIES_BYTES_MAX
from gantry_wire.properties import KEYS, TAGS, TRANSIENT_PREFIX, UNIQ_KEY, parse_properties, tags_code

_UNCOMMON = tuple(name.encode() for name in (*SPECIAL, *ADDED, TAGS, KEYS, TRANSIENT_PREFIX))
"""Without any of these in a body, a message needs its unique key found and the broker's properties added, no more."""
_UNIQUE_MARK = UNIQ_KEY.encode() + b"\x01"
_AFTER_MARK = len(_UNIQUE_MARK)
_END = b"\x02"


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
    found = decode_batch(body)
    for mark in _UNCOMMON:
        if mark in body:
            return [_read(item, sys_flag, stamp) for item in found]
    suffix = stamp.suffix
    room = PROPERTIES_BYTES_MAX - len(suffix) - 1
    items: list[Item] = []
    for item in found:
        flag, message_body, raw = item
        if not raw.startswith(_UNIQUE_MARK) or len(raw) > room:
            items.append(_read(item, sys_flag, stamp))
            continue
        end = raw.find(_END)
        if end < 0:
            unique, raw = raw[_AFTER_MARK:], raw + _END + suffix
        else:
            unique, raw = raw[_AFTER_MARK:end], (raw + suffix if raw[-1] == 2 else raw + _END + suffix)
        if not unique or raw.count(_UNIQUE_MARK) > 1:
            items.append(_read(item, sys_flag, stamp))
            continue
        items.append(_new_item(Item, (flag, message_body, raw, 0, unique.decode(), None)))
    return items


def _read(item: BatchItem, sys_flag: int, stamp: Stamp) -> Item:
    flag, body, raw = item
    properties = parse_properties(raw)
    if not SPECIAL.isdisjoint(properties):
        refuse_special(properties, sys_flag)
    raw, unique_key = stamp.finish_bytes(raw, properties)
    if len(raw) > PROPERTIES_BYTES_MAX:
        words = f"the properties of a message have {len(raw)} bytes, the limit is {PROPERTIES_BYTES_MAX}"
        raise RefusedRequest(ResponseCode.MESSAGE_ILLEGAL, words)
    tag = properties.get(TAGS)
    return Item(flag, body, raw, tags_code(tag) if tag else 0, unique_key, properties.get(KEYS))
