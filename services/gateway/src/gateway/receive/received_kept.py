"""Caches the JSON of properties by their bytes: most messages of a topic share all but the unique key. Pure."""

from functools import lru_cache

import msgspec

from gantry_wire.messages.ids import offset_message_id
from gantry_wire.records.message_record import decode_record
from gateway.messages.message_view import message, rfc3339

KEPT_MAX = 4096
"""Cached entries; a full cache is cleared."""
POSITION_CHARS = 16

_BODY_FIELD = b',"body":'

Kept = tuple[bytes, bytes, bytes]
"""JSON of keys and properties; of the part before the body; of the part after it."""

_kept: dict[tuple[bytes, bytes], Kept] = {}
_encode = msgspec.json.encode


def kept(others: bytes, topic: bytes, data: bytes, at: int) -> Kept:
    """Return the JSON of the properties `others`, without the unique key; computed from the record at `at` on a miss."""
    return _kept.get((others, topic)) or _keep(others, topic, data, at)


@lru_cache(maxsize=KEPT_MAX)
def shown_time(timestamp_ms: int) -> bytes:
    """Return a time in JSON form, without its quotes."""
    return rfc3339(timestamp_ms).encode()


@lru_cache(maxsize=1024)
def host_part(packed: bytes) -> bytes:
    """Return the store's part of an offset message id."""
    return offset_message_id(packed, 0).encode()[:-POSITION_CHARS]


def _keep(others: bytes, topic: bytes, data: bytes, at: int) -> Kept:
    """Format a record by the slow path and keep the JSON of its properties: keys and properties, and the text around the body."""
    one = message(decode_record(data, at), "")
    one.body = ""
    text = _encode(one)
    head_at, head_end = text.index(b',"keys":'), text.index(b',"bornTimestamp":')
    tail_at = text.index(b'"', text.index(b'"offsetMessageId":"') + len(b'"offsetMessageId":"')) + 1
    tail = text[tail_at:-1]
    before, _, after = tail.rpartition(b',"body":""')
    if len(_kept) >= KEPT_MAX:
        _kept.clear()
    found = _kept[others, topic] = (text[head_at:head_end], before + _BODY_FIELD, after)
    return found
