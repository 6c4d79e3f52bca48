"""A raw body as one message, its fields in Mq-* headers. Pure."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from gateway.http.problems import invalid
from gateway.messages.schemas import FieldNames, MessageIn
from gateway.requests.json_bodies import BOUND

Named = tuple[list[MessageIn], FieldNames]
"""Messages, and a function that returns the client's names of their fields."""

PREFIX = b"mq-"
PROPERTY_PREFIX = b"mq-property-"

_TEXTS = {
    b"mq-tag": ("tag", "Mq-Tag"),
    b"mq-broker": ("broker", "Mq-Broker"),
    b"mq-sharding-key": ("shardingKey", "Mq-Sharding-Key"),
    b"mq-idempotency-key": ("idempotencyKey", "Mq-Idempotency-Key"),
}
_NUMBERS = {
    b"mq-queue-id": ("queueId", "Mq-Queue-Id"),
    b"mq-delay-level": ("delayLevel", "Mq-Delay-Level"),
    b"mq-delay-ms": ("delayMs", "Mq-Delay-Ms"),
}
_BAD_PERCENT = re.compile("%(?![0-9A-Fa-f]{2})")
_DELIVER_AT = "Mq-Deliver-At"
HEADER_OF = dict((*_TEXTS.values(), *_NUMBERS.values())) | {
    "deliverAt": _DELIVER_AT,
    "keys": "Mq-Keys",
    "properties": "Mq-Properties",
    "body": "body",
    "bodyBase64": "body",
}
"""The name of a message field that came as a header."""
_KNOWN = sorted({*HEADER_OF.values(), "Mq-Property-<name>"} - {"body"})
_SHOWN = {shown.lower(): shown for shown in _KNOWN}


def header_name(_place: int, field: str) -> str:
    """Return the header of a field."""
    return HEADER_OF.get(field, field)


def refuse_repeated_headers(headers: Iterable[tuple[bytes, bytes]], prefix: bytes) -> None:
    """Refuse a repeated message header: its value is ambiguous."""
    counts = Counter(name for name, _value in headers if name.startswith(prefix))
    for name, count in counts.items():
        if count > 1:
            shown = name.decode("ascii", "replace")
            shown = _SHOWN.get(shown, shown)
            raise invalid(shown, f"the header {shown} stands {count} times", "once")


def raw_message(headers: Mapping[bytes, bytes], body: bytes) -> Named:
    """Return the one message of a raw body with Mq-* headers."""
    return [read_message(header_fields(headers), body, header_name)], header_name


def header_fields(headers: Mapping[bytes, bytes]) -> dict[str, Any]:
    """Return the message fields in the Mq-* headers."""
    fields: dict[str, Any] = {}
    properties: dict[str, str] = {}
    for name, value in headers.items():
        if not name.startswith(PREFIX):
            continue
        if name in _TEXTS:
            field, shown = _TEXTS[name]
            fields[field] = text_of(value, shown)
        elif name in _NUMBERS:
            field, shown = _NUMBERS[name]
            fields[field] = number_of(value, shown)
        elif name == b"mq-deliver-at":
            fields["deliverAt"] = instant_of(value, _DELIVER_AT)
        elif name == b"mq-keys":
            fields["keys"] = text_of(value, "Mq-Keys").split()
        elif name == b"mq-properties":
            properties |= _pairs(value)
        elif name.startswith(PROPERTY_PREFIX):
            properties[text_of(name[len(PROPERTY_PREFIX) :], "Mq-Property-…")] = text_of(
                value, "Mq-Property-…"
            )
        else:
            shown = name.decode("ascii", "replace")
            raise invalid(shown, f"there is no header {shown}; known: {', '.join(_KNOWN)}")
    if properties:
        fields["properties"] = properties
    return fields


def read_message(fields: dict[str, Any], body: bytes, name_of: FieldNames) -> MessageIn:
    """Return a message of these fields, checked like those in JSON."""
    try:
        message = msgspec.convert(fields, MessageIn)
    except msgspec.ValidationError as error:
        detail, _, path = str(error).partition(" - at `")
        field = path.removeprefix("key` in `").removeprefix("$.").rstrip("`").partition("[")[0]
        shown = name_of(0, field) if field else "headers"
        bound = BOUND.match(detail)
        raise invalid(shown, detail, bound["limit"].removeprefix("of ") if bound else "") from error
    message.body_base64 = body
    return message


def text_of(value: bytes, shown: str) -> str:
    """Return a header's text."""
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise invalid(shown, f"the header {shown} is not UTF-8") from error


def number_of(value: bytes, shown: str) -> int:
    """Return a header's number."""
    if not value.isdigit() or len(value) > 19:
        raise invalid(shown, f"{shown} is a whole number, not negative", "0…")
    return int(value)


def instant_of(value: bytes, shown: str) -> str | int:
    """Return a header's time for `read_message` to check: RFC 3339, or milliseconds since 1970."""
    return number_of(value, shown) if value.isdigit() else text_of(value, shown)


def _pairs(value: bytes) -> dict[str, str]:
    """Properties in one header, as percent-encoded `name=value&name=value`: keeps capitals, which header names lose."""
    text = text_of(value, "Mq-Properties")
    try:
        if _BAD_PERCENT.search(text):
            raise ValueError(text)
        pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=True, errors="strict")
    except ValueError as error:
        raise invalid("Mq-Properties", "write name=value&name=value, percent-encoded UTF-8") from error
    properties = dict(pairs)
    if len(properties) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise invalid(f"Mq-Properties.{twice}", f"the property {twice} stands twice", "once")
    return properties
