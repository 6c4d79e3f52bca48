"""Converts a client's message to a store's: checks every field and builds the id and properties.

Pure but for the id generator and the clock. A draft also has the fields that choose its queue; queue_choice chooses.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct

from gantry_wire.limits import BODY_BYTES_MAX
from gantry_wire.messages.ids import UniqueIds
from gantry_wire.messages.properties import (
    DELAY,
    GANTRY_KEY,
    KEYS,
    SHARDING_KEY,
    TAGS,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    UNIQ_KEY,
    WAIT,
)
from gateway.http.problems import Problem, invalid
from gateway.messages.property_names import RESERVED, RESERVED_PREFIX
from gateway.messages.schemas import IDEMPOTENCY_KEY_BYTES_MAX, FieldNames, MessageIn
from gateway.requests.limits import CLIENT_PROPERTIES_BYTES_MAX
from gateway.send.delays import delay_property

_NAME_END, _VALUE_END = "\x01", "\x02"
_WAIT = f"{WAIT}\x01true\x02"
"""Properties that RocketMQ's clients add to every message; one with only these besides its id is decoded by a fast path."""
_DELAYS = frozenset({DELAY, TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS})

SHORT_CHARS = CLIENT_PROPERTIES_BYTES_MAX // 4
"""Text of at most this many characters is within a limit of bytes: UTF-8 needs at most 4 bytes per character."""


class Draft(Struct, gc=False):
    """A message that passed every check, ready for a queue."""

    item: MessageIn
    body: bytes
    properties: str
    message_id: str
    place: int
    name_of: FieldNames
    is_free: bool = False
    """Nothing selects the queue: the turn of the request decides, and any broker may take it."""
    is_alone: bool = False
    """It takes a request of its own, since no batch takes such a message: a delayed, transactional or compressed one."""
    sys_flag: int = 0
    """The record's; says how the body is compressed."""
    born_ms: int | None = None
    """When the client made the message, in ms since 1970; None for when it is sent. A batch has that of its first message."""

    @property
    def hash_key(self) -> str | None:
        """The key that selects the queue if it is not given."""
        return self.item.sharding_key or self.item.idempotency_key

    def field_name(self, field: str) -> str:
        """Return a field's name as the client wrote it."""
        return self.name_of(self.place, field)


def draft(item: MessageIn, message_id: str, trace: str, place: int, name_of: FieldNames) -> Draft:
    """Check one message and build its body and properties; raise the problem that names the field and the limit.

    `trace` is the encoded traceparent of the request, or "".
    """
    text = f"{UNIQ_KEY}\x01{message_id}\x02"
    fields = 1
    if item.tag is not None:
        text += f"{TAGS}\x01{_checked_tag(item.tag, place, name_of)}\x02"
        fields = 2
    is_free = item.queue_id is None and item.broker is None
    if item.keys or item.sharding_key is not None or item.idempotency_key is not None:
        is_free = is_free and item.sharding_key is None and item.idempotency_key is None
        more, count = _key_properties(item, place, name_of)
        text += more
        fields += count
    properties = item.properties
    if properties:
        text += _user_properties(properties, place, name_of)
        fields += len(properties)
    if trace and (properties is None or "traceparent" not in properties):
        text += trace
        fields += trace.count(_NAME_END)
    if fields == 1:
        text += _WAIT
        fields = 2
    if text.count(_NAME_END) != fields or text.count(_VALUE_END) != fields:
        raise _separator(item, place, name_of)
    is_delayed = bool(item.delay_level or item.delay_ms) or item.deliver_at is not None
    if len(text) > SHORT_CHARS:
        _check_size(text, place, name_of)
    if item.body is not None and item.body_base64 is None and len(item.body) <= SHORT_CHARS:
        body = item.body.encode()
    else:
        body = _body(item, place, name_of)
    return Draft(item, body, text, message_id, place, name_of, is_free, is_delayed)


def _checked_tag(tag: str, place: int, name_of: FieldNames) -> str:
    if tag == "*" or "||" in tag:
        detail = "no filter can name this tag: * stands for all tags, and || stands between them"
        raise invalid(name_of(place, "tag"), detail, "neither * nor ||")
    return tag


def _key_properties(item: MessageIn, place: int, name_of: FieldNames) -> tuple[str, int]:
    """Return keys, sharding key and idempotency key as properties, and their number."""
    text, count = "", 0
    if item.keys:
        text, count = f"{KEYS}\x01{_joined(item.keys, place, name_of)}\x02", 1
    if item.sharding_key is not None:
        text += f"{SHARDING_KEY}\x01{item.sharding_key}\x02"
        count += 1
    if item.idempotency_key is not None:
        text += f"{GANTRY_KEY}\x01{_checked_key(item.idempotency_key, place, name_of)}\x02"
        count += 1
    return text, count


def _body(item: MessageIn, place: int, name_of: FieldNames) -> bytes:
    if item.body is not None:
        if item.body_base64 is not None:
            raise invalid(name_of(place, "bodyBase64"), "give body or bodyBase64, not both")
        body, name = item.body.encode(), "body"
    elif item.body_base64 is not None:
        body, name = item.body_base64, "bodyBase64"
    else:
        raise invalid(name_of(place, "body"), "the message has neither body nor bodyBase64")
    if len(body) > BODY_BYTES_MAX:
        raise body_too_large(len(body), name_of(place, name))
    return body


def body_too_large(size: int, field: str) -> Problem:
    """Return 413: the body is over the limit."""
    limit = f"{BODY_BYTES_MAX} bytes"
    return Problem(
        413, "MESSAGE_ILLEGAL", f"the body has {size} bytes, the limit is {limit}", field=field, limit=limit
    )


def _joined(keys: list[str], place: int, name_of: FieldNames) -> str:
    """RocketMQ separates keys by spaces, so a key with a space would become two."""
    joined = " ".join(keys)
    if joined.split() != keys:
        blank = next(n for n, key in enumerate(keys) if key.split() != [key])
        raise invalid(f"{name_of(place, 'keys')}[{blank}]", "a key may not hold blanks", "no blanks")
    return joined


def _checked_key(key: str, place: int, name_of: FieldNames) -> str:
    if len(key) * 4 > IDEMPOTENCY_KEY_BYTES_MAX and len(key.encode()) > IDEMPOTENCY_KEY_BYTES_MAX:
        limit = f"{IDEMPOTENCY_KEY_BYTES_MAX} bytes"
        raise invalid(name_of(place, "idempotencyKey"), f"the key has over {limit} of UTF-8", limit)
    return key


def _user_properties(properties: dict[str, str], place: int, name_of: FieldNames) -> str:
    parts: list[str] = []
    for name, value in properties.items():
        if name in RESERVED or name.startswith(RESERVED_PREFIX):
            field = f"{name_of(place, 'properties')}.{name}"
            instead = "; use delayLevel, delayMs or deliverAt" if name in _DELAYS else ""
            raise invalid(field, f"property {name} belongs to the system{instead}", "no system property")
        parts.append(f"{name}\x01{value}\x02")
    return "".join(parts)


def _check_size(text: str, place: int, name_of: FieldNames) -> None:
    size = len(text.encode())
    if size > CLIENT_PROPERTIES_BYTES_MAX:
        limit = f"{CLIENT_PROPERTIES_BYTES_MAX} bytes"
        detail = f"tag, keys and properties take {size} bytes together, the limit is {limit}"
        raise invalid(name_of(place, "properties"), detail, limit)


def _separator(item: MessageIn, place: int, name_of: FieldNames) -> Problem:
    """Name the field that contains a separator of properties in the log."""
    texts = {
        "tag": item.tag or "",
        "keys": " ".join(item.keys or ()),
        "shardingKey": item.sharding_key or "",
        "idempotencyKey": item.idempotency_key or "",
        "properties": "".join(f"{name}{value}" for name, value in (item.properties or {}).items()),
    }
    name = next((n for n, text in texts.items() if _NAME_END in text or _VALUE_END in text), "traceparent")
    return invalid(
        name_of(place, name), "the characters U+0001 and U+0002 divide properties and may not be in one"
    )


class Drafting:
    """Converts clients' messages to drafts."""

    def __init__(self, ids: UniqueIds, wall_ms: Callable[[], int], delay_horizon_ms: int) -> None:
        self._next_id, self._wall_ms, self._horizon_ms = ids.next, wall_ms, delay_horizon_ms

    def drafts(self, items: Sequence[MessageIn], trace: str, name_of: FieldNames) -> list[Draft]:
        """Return a draft of each message; raise the problem of the first invalid one."""
        now_ms = self._wall_ms()
        next_id = self._next_id
        drafts = [draft(item, next_id(now_ms), trace, place, name_of) for place, item in enumerate(items)]
        for one in drafts:
            if one.is_alone:  # here only delayed ones are
                one.properties += delay_property(one.item, now_ms, self._horizon_ms, one.place, name_of)
        return drafts
