"""The body of a send batch: consecutive messages, each with its own flag, body and properties.

    4 size of this item, itself included | 4 zero | 4 zero | 4 flag | 4 body length | body | 2 properties length | properties

The topic and the other fields are in the request header.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import chain, repeat
from struct import Struct
from typing import NamedTuple, cast

from gantry_wire.errors import MalformedBatch
from gantry_wire.limits import BATCH_ITEM_BYTES_MIN, BATCH_MESSAGES_MAX, BODY_BYTES_MAX, PROPERTIES_BYTES_MAX

EVEN_MAX = 1024
"""Maximum number of messages decoded by one unpack. Each number of messages needs its own cached layout."""
_ITEM = Struct(">iiiii")
"""Size, magic (unused), body CRC (unused), flag, body length."""
_SHORT = Struct(">h")

assert _ITEM.size + _SHORT.size == BATCH_ITEM_BYTES_MIN


class BatchItem(NamedTuple):
    """One message of a batch."""

    flag: int
    body: bytes
    properties: bytes


_new_item = cast("Callable[[type[BatchItem], tuple[int, bytes, bytes]], BatchItem]", tuple.__new__)


class BatchColumns(NamedTuple):
    """The messages of a batch as columns, in message order."""

    flags: tuple[int, ...]
    bodies: tuple[bytes, ...]
    properties: tuple[bytes, ...]


def decode_batch(body: bytes) -> list[BatchItem]:
    """Return the messages of a batch body. Raises MalformedBatch unless they fill it exactly.

    An empty body and one with more than BATCH_MESSAGES_MAX messages are malformed too.
    """
    return list(map(_new_item, repeat(BatchItem), zip(*decode_columns(body), strict=True)))


def decode_columns(body: bytes) -> BatchColumns:
    """Decode as `decode_batch` does, to columns, without an object per message."""
    end = len(body)
    if not end:
        raise MalformedBatch("the batch is empty")
    even = _decode_even(body) if end >= 2 * BATCH_ITEM_BYTES_MIN else None
    return even if even is not None else BatchColumns(*zip(*_decode_each(body), strict=True))


def _decode_each(body: bytes) -> list[BatchItem]:
    end = len(body)
    unpack, unpack_short = _ITEM.unpack_from, _SHORT.unpack_from
    items: list[BatchItem] = []
    at = 0
    while at < end:
        if len(items) == BATCH_MESSAGES_MAX:
            raise MalformedBatch(f"a batch of more than {BATCH_MESSAGES_MAX} messages; send it in parts")
        body_at = at + _ITEM.size
        if body_at > end:
            raise MalformedBatch(f"batch item {len(items)} ends inside its lengths")
        size, _, _, flag, body_size = unpack(body, at)
        properties_at = body_at + body_size + _SHORT.size
        if body_size < 0 or properties_at > end:
            raise MalformedBatch(
                f"batch item {len(items)}: a body of {body_size} bytes does not fit the batch"
            )
        (properties_size,) = unpack_short(body, properties_at - _SHORT.size)
        next_at = properties_at + properties_size
        if properties_size < 0 or next_at != at + size or next_at > end:
            raise MalformedBatch(f"batch item {len(items)}: its lengths contradict its size of {size} bytes")
        items.append(
            _new_item(
                BatchItem, (flag, body[body_at : properties_at - _SHORT.size], body[properties_at:next_at])
            )
        )
        at = next_at
    return items


def _decode_even(body: bytes) -> BatchColumns | None:
    """Decode the batch in one unpack if all bodies have one size and all properties have one size; else return None."""
    size, _, _, _, body_size = _ITEM.unpack_from(body)
    properties_size = size - BATCH_ITEM_BYTES_MIN - body_size
    if body_size < 0 or properties_size < 0 or len(body) % size:
        return None
    n = len(body) // size
    if n > EVEN_MAX:
        return None
    fields = _rows(body_size, properties_size, n).unpack(body)
    if (
        fields[0::6].count(size) != n
        or fields[2::6].count(body_size) != n
        or fields[4::6].count(properties_size) != n
    ):
        return None
    return BatchColumns(fields[1::6], fields[3::6], fields[5::6])


@lru_cache(maxsize=256)
def _rows(body_size: int, properties_size: int, count: int) -> Struct:
    return Struct(">" + f"i8xii{body_size}sh{properties_size}s" * count)


def encode_batch(items: Iterable[BatchItem], bytes_max: int = BODY_BYTES_MAX) -> bytes:
    """Return the body of a batch of these messages. Raises MalformedBatch if it exceeds a limit.

    Pass PER_ITEM_BATCH_BYTES_MAX as `bytes_max` if the request asks for a result per item.
    """
    rows = list(items)
    if len(rows) > BATCH_MESSAGES_MAX:
        raise MalformedBatch(
            f"a batch of {len(rows)} messages, the limit is {BATCH_MESSAGES_MAX}; send it in parts"
        )
    batch = _encode_even(rows) if len(rows) > 1 else None
    if batch is None:
        batch = b"".join(chain.from_iterable(map(_parts_of, rows)))
    if not 0 < len(batch) <= bytes_max:
        raise MalformedBatch(f"a batch of {len(batch)} bytes, the limit is 1..{bytes_max}")
    return batch


def _parts_of(item: BatchItem) -> tuple[bytes, bytes, bytes, bytes]:
    flag, body, properties = item
    if len(properties) > PROPERTIES_BYTES_MAX:
        raise MalformedBatch(f"properties of {len(properties)} bytes, the limit is {PROPERTIES_BYTES_MAX}")
    size = BATCH_ITEM_BYTES_MIN + len(body) + len(properties)
    return _ITEM.pack(size, 0, 0, flag, len(body)), body, _SHORT.pack(len(properties)), properties


def _encode_even(rows: list[BatchItem]) -> bytes | None:
    """Encode the batch in one pack if all bodies have one size and all properties have one size; takes half the time."""
    flags, bodies, properties = zip(*rows, strict=True)
    body_sizes, properties_sizes = set(map(len, bodies)), set(map(len, properties))
    if len(body_sizes) > 1 or len(properties_sizes) > 1 or len(rows) > EVEN_MAX:
        return None
    body_size, properties_size = body_sizes.pop(), properties_sizes.pop()
    if properties_size > PROPERTIES_BYTES_MAX:
        return None
    size = BATCH_ITEM_BYTES_MIN + body_size + properties_size
    fields = zip(
        repeat(size), flags, repeat(body_size), bodies, repeat(properties_size), properties, strict=False
    )
    return _rows(body_size, properties_size, len(rows)).pack(*chain.from_iterable(fields))
