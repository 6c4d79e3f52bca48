"""Messages that do not come as our JSON: a raw body with Mq-* headers, and CloudEvents (binary and batch). Pure.

CloudEvents 1.0, HTTP binding: the type becomes the tag, the subject a key, source and id the idempotency key;
attributes are kept as properties `ce_…` so that nothing is lost.
"""

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec
from msgspec import Meta

from gateway.json_bodies import read_json
from gateway.problems import invalid
from gateway.schemas import IDEMPOTENCY_KEY_BYTES_MAX, MESSAGES_MAX, MessageIn

PROPERTY_PREFIX = b"mq-property-"
_CE_PREFIX = b"ce-"
_CE_REQUIRED = ("id", "source", "type", "specversion")
_CE_REQUIRED_HEADERS = frozenset(_CE_PREFIX + name.encode() for name in _CE_REQUIRED)
_CE_DATA = frozenset({"data", "data_base64"})

Event = dict[str, Any]
_decode_event = msgspec.json.Decoder(Event).decode
_decode_batch = msgspec.json.Decoder(
    Annotated[list[Event], Meta(min_length=1, max_length=MESSAGES_MAX)]
).decode

_TEXTS = {
    b"mq-tag": ("tag", "Mq-Tag"),
    b"mq-broker": ("broker", "Mq-Broker"),
    b"mq-sharding-key": ("shardingKey", "Mq-Sharding-Key"),
    b"mq-idempotency-key": ("idempotencyKey", "Mq-Idempotency-Key"),
    b"mq-deliver-at": ("deliverAt", "Mq-Deliver-At"),
}
_NUMBERS = {
    b"mq-queue-id": ("queueId", "Mq-Queue-Id"),
    b"mq-delay-level": ("delayLevel", "Mq-Delay-Level"),
    b"mq-delay-ms": ("delayMs", "Mq-Delay-Ms"),
}
HEADER_OF = dict((*_TEXTS.values(), *_NUMBERS.values())) | {
    "keys": "Mq-Keys",
    "properties": "Mq-Properties",
    "body": "body",
    "bodyBase64": "body",
}
"""How a message's field is called when it came as a header."""
_KNOWN = sorted({*HEADER_OF.values(), "Mq-Property-<name>"} - {"body"})


def is_cloud_event(headers: Mapping[bytes, bytes]) -> bool:
    """Say whether the headers carry a CloudEvent in binary mode: any attribute that each must have."""
    return not _CE_REQUIRED_HEADERS.isdisjoint(headers)


def raw_message(headers: Mapping[bytes, bytes], body: bytes) -> MessageIn:
    """Return the one message of a raw body with Mq-* headers."""
    fields: dict[str, Any] = {}
    properties: dict[str, str] = {}
    for name, value in headers.items():
        if not name.startswith(b"mq-"):
            continue
        if name in _TEXTS:
            field, shown = _TEXTS[name]
            fields[field] = _text(value, shown)
        elif name in _NUMBERS:
            field, shown = _NUMBERS[name]
            fields[field] = _number(value, shown)
        elif name == b"mq-keys":
            fields["keys"] = _text(value, "Mq-Keys").split()
        elif name == b"mq-properties":
            properties |= _pairs(value)
        elif name.startswith(PROPERTY_PREFIX):
            properties[_text(name[len(PROPERTY_PREFIX) :], "Mq-Property-…")] = _text(value, "Mq-Property-…")
        else:
            shown = name.decode("ascii", "replace")
            raise invalid(shown, f"there is no header {shown}; known: {', '.join(_KNOWN)}")
    if properties:
        fields["properties"] = properties
    return _message(fields, body)


def cloud_event(headers: Mapping[bytes, bytes], body: bytes) -> MessageIn:
    """Return the message of a CloudEvent in binary mode: attributes in ce-* headers, data in the body."""
    attributes = {
        name[len(_CE_PREFIX) :].decode("ascii", "replace"): _ce_text(value, name)
        for name, value in headers.items()
        if name.startswith(_CE_PREFIX)
    }
    content_type = headers.get(b"content-type")
    if content_type:
        attributes["datacontenttype"] = _text(content_type, "Content-Type")
    return _event_message(attributes, body, "ce-")


def event_batch(body: bytes) -> list[MessageIn]:
    """Return the messages of `application/cloudevents-batch+json`."""
    events = read_json(_decode_batch, body)
    return [_structured(event, f"[{place}].") for place, event in enumerate(events)]


def structured_event(body: bytes) -> MessageIn:
    """Return the message of `application/cloudevents+json`: attributes and data in one object."""
    return _structured(read_json(_decode_event, body), "")


def _structured(event: Event, prefix: str) -> MessageIn:
    attributes: dict[str, str] = {}
    for name, value in event.items():
        if name in _CE_DATA or value is None:
            continue
        if not isinstance(value, str if name in _CE_REQUIRED else (str, int, bool)):
            raise invalid(
                f"{prefix}{name}",
                "an attribute is a text; one of your own may be a whole number or a boolean",
            )
        attributes[name] = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return _event_message(attributes, _data(event, prefix), prefix)


def _data(event: Event, prefix: str) -> bytes:
    if "data_base64" in event:
        try:
            return msgspec.convert(event["data_base64"], bytes)
        except msgspec.ValidationError as error:
            raise invalid(f"{prefix}data_base64", str(error)) from error
    data = event.get("data")
    if data is None:
        return b""
    content_type = event.get("datacontenttype", "application/json")
    is_json = isinstance(content_type, str) and content_type.partition(";")[0].strip().endswith("json")
    return data.encode() if isinstance(data, str) and not is_json else msgspec.json.encode(data)


def _event_message(attributes: dict[str, str], body: bytes, prefix: str) -> MessageIn:
    for name in _CE_REQUIRED:
        if not attributes.get(name):
            raise invalid(f"{prefix}{name}", f"a CloudEvent needs the attribute {name}")
    if attributes["specversion"] != "1.0":
        raise invalid(f"{prefix}specversion", "the version of CloudEvents is 1.0", "1.0")
    for name in attributes:
        if not (name.isascii() and name.isalnum() and name == name.lower()):
            raise invalid(f"{prefix}{name}", "an attribute's name has lower-case letters and digits only")
    fields: dict[str, Any] = {
        "tag": attributes["type"],
        "idempotencyKey": _identity(attributes["source"], attributes["id"]),
        "properties": {f"ce_{name}": value for name, value in attributes.items() if value},
    }
    if partition_key := attributes.get("partitionkey"):
        fields["shardingKey"] = partition_key
    if subject := attributes.get("subject", "").split():
        fields["keys"] = subject
    return _message(fields, body)


def _identity(source: str, event_id: str) -> str:
    """CloudEvents says that source and id together name an event; long ones are cut down to their digest."""
    text = f"{source} {event_id}"
    if len(text.encode()) <= IDEMPOTENCY_KEY_BYTES_MAX:
        return text
    return hashlib.sha256(text.encode()).hexdigest()


def _message(fields: dict[str, Any], body: bytes) -> MessageIn:
    try:
        message = msgspec.convert(fields, MessageIn)
    except msgspec.ValidationError as error:
        words, _, path = str(error).partition(" - at `")
        field = path.removeprefix("key` in `").removeprefix("$.").rstrip("`").partition("[")[0]
        raise invalid(
            HEADER_OF.get(field, field or "headers"), words, words.removeprefix("Expected ")
        ) from error
    message.body_base64 = body
    return message


def _text(value: bytes, shown: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise invalid(shown, f"the header {shown} is not UTF-8") from error


def _pairs(value: bytes) -> dict[str, str]:
    """Properties in one header, as `name=value&name=value` percent-encoded: keeps capitals, which header names lose."""
    try:
        return dict(
            parse_qsl(
                _text(value, "Mq-Properties"), keep_blank_values=True, strict_parsing=True, errors="strict"
            )
        )
    except ValueError as error:
        raise invalid("Mq-Properties", "write name=value&name=value, percent-encoded UTF-8") from error


def _ce_text(value: bytes, name: bytes) -> str:
    """Header values of CloudEvents are percent-encoded UTF-8."""
    return _text(unquote_to_bytes(value), name.decode("ascii", "replace"))


def _number(value: bytes, shown: str) -> int:
    if not value.isdigit() or len(value) > 19:
        raise invalid(shown, f"the header {shown} is a whole number, not negative", "0…")
    return int(value)
