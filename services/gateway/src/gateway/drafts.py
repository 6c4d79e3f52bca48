"""From what a client wrote to what a store gets: checks every field of a message and builds its properties.

Pure. A draft also says how its queue is chosen; choosing is queue_choice's part.
"""

from collections.abc import Callable

from gantry_wire.limits import BODY_BYTES_MAX, PROPERTIES_BYTES_MAX
from gantry_wire.properties import (
    DELAY,
    GANTRY_KEY,
    KEYS,
    SHARDING_KEY,
    TAGS,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TRANSACTION_PREPARED,
    UNIQ_KEY,
)
from gateway.ports import Message
from gateway.problems import Problem, invalid, not_yet, unprocessable
from gateway.property_names import RESERVED, RESERVED_PREFIX
from gateway.schemas import IDEMPOTENCY_KEY_BYTES_MAX, MessageIn

BROKER_PROPERTIES_BYTES = 512
"""Room left for what the store adds (region, trace switch, cluster)."""
CLIENT_PROPERTIES_BYTES_MAX = PROPERTIES_BYTES_MAX - BROKER_PROPERTIES_BYTES

_NAME_END, _VALUE_END = "\x01", "\x02"
_LATER = frozenset({DELAY, TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS, TRANSACTION_PREPARED})
_DELAYS = "delayed messages come with the next version; send without delayLevel, delayMs and deliverAt"

FieldName = Callable[[str], str]
"""Turns the name of a message's field into the one the client wrote (a path in JSON, a header)."""


class Draft:
    """A message that passed every check, ready to be given a queue."""

    __slots__ = ("broker", "field_name", "hash_key", "is_keyed", "message", "message_id", "queue_id")

    def __init__(self, item: MessageIn, message: Message, message_id: str, field_name: FieldName) -> None:
        self.message, self.message_id, self.field_name = message, message_id, field_name
        self.broker, self.queue_id = item.broker, item.queue_id
        self.is_keyed = item.idempotency_key is not None
        self.hash_key = item.sharding_key or item.idempotency_key


def draft(item: MessageIn, message_id: str, trace: str, field_name: FieldName) -> Draft:
    """Check one message and build its body and properties; raise the problem that names the field and the limit.

    `trace` is the encoded traceparent of the request, or "".
    """
    text = f"{UNIQ_KEY}\x01{message_id}\x02"
    fields = 1
    if item.tag is not None:
        text += f"{TAGS}\x01{item.tag}\x02"
        fields += 1
    if item.keys:
        text += f"{KEYS}\x01{_joined(item.keys, field_name)}\x02"
        fields += 1
    if item.sharding_key is not None:
        text += f"{SHARDING_KEY}\x01{item.sharding_key}\x02"
        fields += 1
    if item.idempotency_key is not None:
        text += f"{GANTRY_KEY}\x01{_checked_key(item.idempotency_key, field_name)}\x02"
        fields += 1
    if item.properties:
        text += _user_properties(item.properties, field_name)
        fields += len(item.properties)
    if trace and (item.properties is None or "traceparent" not in item.properties):
        text += trace
        fields += trace.count(_NAME_END)
    if text.count(_NAME_END) != fields or text.count(_VALUE_END) != fields:
        raise _separator(item, field_name)
    if item.delay_level or item.delay_ms or item.deliver_at is not None:
        raise not_yet(_DELAYS, 422)
    _check_size(text, field_name)
    return Draft(item, Message(0, _body(item, field_name), text), message_id, field_name)


def _body(item: MessageIn, field_name: FieldName) -> bytes:
    if item.body is not None:
        if item.body_base64 is not None:
            raise invalid(field_name("bodyBase64"), "give body or bodyBase64, not both")
        body, name = item.body.encode(), "body"
    elif item.body_base64 is not None:
        body, name = item.body_base64, "bodyBase64"
    else:
        raise invalid(field_name("body"), "the message has neither body nor bodyBase64")
    if len(body) > BODY_BYTES_MAX:
        raise body_too_large(len(body), field_name(name))
    return body


def body_too_large(size: int, field: str) -> Problem:
    """Refuse a body over the limit: 413."""
    limit = f"{BODY_BYTES_MAX} bytes"
    return Problem(
        413, "MESSAGE_ILLEGAL", f"the body has {size} bytes, the limit is {limit}", field=field, limit=limit
    )


def _joined(keys: list[str], field_name: FieldName) -> str:
    """RocketMQ keeps keys divided by blanks, so a key with a blank would become two."""
    joined = " ".join(keys)
    if joined.split() != keys:
        place = next(n for n, key in enumerate(keys) if key.split() != [key])
        raise invalid(f"{field_name('keys')}[{place}]", "a key may not hold blanks", "no blanks")
    return joined


def _checked_key(key: str, field_name: FieldName) -> str:
    if len(key) * 4 > IDEMPOTENCY_KEY_BYTES_MAX and len(key.encode()) > IDEMPOTENCY_KEY_BYTES_MAX:
        limit = f"{IDEMPOTENCY_KEY_BYTES_MAX} bytes"
        raise invalid(field_name("idempotencyKey"), f"the key has over {limit} of UTF-8", limit)
    return key


def _user_properties(properties: dict[str, str], field_name: FieldName) -> str:
    parts: list[str] = []
    for name, value in properties.items():
        if name in RESERVED or name.startswith(RESERVED_PREFIX):
            field = f"{field_name('properties')}.{name}"
            if name in _LATER:
                words = f"property {name} asks for a delay or a transaction: both come with the next version"
                raise unprocessable("NOT_YET", field, words)
            raise invalid(field, f"property {name} belongs to the system", "no system property")
        parts.append(f"{name}\x01{value}\x02")
    return "".join(parts)


def _check_size(text: str, field_name: FieldName) -> None:
    if (
        len(text) * 3 <= CLIENT_PROPERTIES_BYTES_MAX
    ):  # no character takes more than three bytes per code unit pair half
        return
    size = len(text.encode())
    if size > CLIENT_PROPERTIES_BYTES_MAX:
        limit = f"{CLIENT_PROPERTIES_BYTES_MAX} bytes"
        words = f"tag, keys and properties take {size} bytes together, the limit is {limit}"
        raise invalid(field_name("properties"), words, limit)


def _separator(item: MessageIn, field_name: FieldName) -> Problem:
    """Name the field that holds one of the two characters that divide properties in the log."""
    texts = {
        "tag": item.tag or "",
        "keys": " ".join(item.keys or ()),
        "shardingKey": item.sharding_key or "",
        "idempotencyKey": item.idempotency_key or "",
        "properties": "".join(f"{name}{value}" for name, value in (item.properties or {}).items()),
    }
    name = next((n for n, text in texts.items() if _NAME_END in text or _VALUE_END in text), "traceparent")
    return invalid(
        field_name(name), "the characters U+0001 and U+0002 divide properties and may not be in one"
    )
