"""CloudEvents 1.0 as messages: binary (ce-* headers), structured, and in batches. Pure.

The type becomes the tag, the subject a key, source and id the idempotency key; attributes are kept as properties `ce_…`
so that nothing is lost. Mq-* headers of a binary event go before its attributes.
"""

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec import Meta

from gateway.http.problems import invalid
from gateway.messages.schemas import IDEMPOTENCY_KEY_BYTES_MAX, FieldNames, MessageIn
from gateway.requests.element_limits import EVENT_LIMITS, FREE_LIMITS
from gateway.requests.json_bodies import read_json
from gateway.requests.limits import MESSAGES_MAX
from gateway.requests.repeated_names import refuse_repeated_names
from gateway.send.raw_messages import (
    HEADER_OF,
    Named,
    header_fields,
    instant_of,
    number_of,
    read_message,
    text_of,
)

PREFIX = b"ce-"
_REQUIRED = ("id", "source", "type", "specversion")
_REQUIRED_HEADERS = frozenset(PREFIX + name.encode() for name in _REQUIRED)
_DATA = frozenset({"data", "data_base64"})
_DELAYS = {"delaylevel": "delayLevel", "delayms": "delayMs", "deliverat": "deliverAt"}
"""Attributes of the gateway: when an event is delivered."""
_ATTRIBUTE_OF = {
    "tag": "type",
    "keys": "subject",
    "shardingKey": "partitionkey",
    "idempotencyKey": "id",
} | {field: name for name, field in _DELAYS.items()}
"""The attribute of each message field."""

EVENT_EXAMPLE = {
    "specversion": "1.0",
    "id": "1",
    "source": "/shop",
    "type": "order.created",
    "subject": "o-1",
    "datacontenttype": "application/json",
    "data": {"total": 12},
}
EVENT_SCHEMA: dict[str, Any] = {
    "title": "CloudEvent",
    "type": "object",
    "description": "CloudEvents 1.0. The type becomes the tag, the subject keys, source and id the idempotency key.",
    "properties": {
        "specversion": {"const": "1.0"},
        "id": {"type": "string", "minLength": 1},
        "source": {"type": "string", "minLength": 1},
        "type": {"type": "string", "minLength": 1},
        "data": {},
        "data_base64": {"type": "string", "contentEncoding": "base64"},
    },
    "required": ["specversion", "id", "source", "type"],
    "propertyNames": {"pattern": "^(?:[a-z0-9]+|data_base64)$"},
    "additionalProperties": {"type": ["string", "integer", "boolean", "null"]},
}
"""An event may have any further attributes, so it is decoded as a dict; this type describes it in the OpenAPI document."""

Event = dict[str, Any]
_event = msgspec.json.Decoder(Event)
_batch = msgspec.json.Decoder(Annotated[list[Event], Meta(min_length=1, max_length=MESSAGES_MAX)])


def is_cloud_event(headers: Mapping[bytes, bytes]) -> bool:
    """Return whether the headers carry a CloudEvent in binary mode: any required attribute."""
    return not _REQUIRED_HEADERS.isdisjoint(headers)


def binary_event(headers: Mapping[bytes, bytes], body: bytes) -> Named:
    """Return the message of a CloudEvent in binary mode: attributes in ce-* headers, data in the body."""
    attributes = {
        name[len(PREFIX) :].decode("ascii", "replace"): _header_text(value, name)
        for name, value in headers.items()
        if name.startswith(PREFIX)
    }
    content_type = headers.get(b"content-type")
    if content_type:
        attributes["datacontenttype"] = text_of(content_type, "Content-Type")
    given = header_fields(headers)

    def name_of(_place: int, field: str) -> str:
        if field in given or field not in _ATTRIBUTE_OF:
            return HEADER_OF.get(field, field)
        return f"ce-{_ATTRIBUTE_OF[field]}"

    return [_message(attributes, body, "ce-", given, name_of)], name_of


def event_batch(body: bytes) -> Named:
    """Return the messages of `application/cloudevents-batch+json`."""
    events = read_json(_batch, body, EVENT_LIMITS)
    refuse_repeated_names(body)
    items = [_structured(event, f"[{place}].", place, _name_in_batch) for place, event in enumerate(events)]
    return items, _name_in_batch


def structured_event(body: bytes) -> Named:
    """Return the message of `application/cloudevents+json`: attributes and data in one object."""
    event = read_json(_event, body, FREE_LIMITS)
    refuse_repeated_names(body)
    return [_structured(event, "", 0, _name_alone)], _name_alone


def _name_alone(_place: int, field: str) -> str:
    return _ATTRIBUTE_OF.get(field, "data" if field == "body" else field)


def _name_in_batch(place: int, field: str) -> str:
    return f"[{place}].{_name_alone(place, field)}"


def _structured(event: Event, prefix: str, place: int, name_of: FieldNames) -> MessageIn:
    attributes: dict[str, str] = {}
    for name, value in event.items():
        if name in _DATA or value is None:
            continue
        if not isinstance(value, str if name in _REQUIRED else (str, int, bool)):
            raise invalid(
                f"{prefix}{name}",
                "an attribute is a text; one of your own may be a whole number or a boolean",
            )
        attributes[name] = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return _message(attributes, _data(event, prefix), prefix, {}, lambda _place, field: name_of(place, field))


def _data(event: Event, prefix: str) -> bytes:
    if "data_base64" in event:
        if "data" in event:
            raise invalid(f"{prefix}data_base64", "give data or data_base64, not both", "data or data_base64")
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


def _message(
    attributes: dict[str, str], body: bytes, prefix: str, given: Mapping[str, Any], name_of: FieldNames
) -> MessageIn:
    """Return the message of an event; `given` are fields from the request's headers."""
    for name in _REQUIRED:
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
    }
    for name in _DELAYS.keys() & attributes.keys():
        read = instant_of if name == "deliverat" else number_of
        fields[_DELAYS[name]] = read(attributes[name].encode(), f"{prefix}{name}")
    if partition_key := attributes.get("partitionkey"):
        fields["shardingKey"] = partition_key
    if subject := attributes.get("subject", "").split():
        fields["keys"] = subject
    kept = {f"ce_{name}": value for name, value in attributes.items() if value and name not in _DELAYS}
    properties = kept | given.get("properties", {})
    return read_message({**fields, **given, "properties": properties}, body, name_of)


def _identity(source: str, event_id: str) -> str:
    """In CloudEvents, source and id together identify an event; long ones are replaced by their digest."""
    text = f"{source} {event_id}"
    if len(text.encode()) <= IDEMPOTENCY_KEY_BYTES_MAX:
        return text
    return hashlib.sha256(text.encode()).hexdigest()


def _header_text(value: bytes, name: bytes) -> str:
    """Header values of CloudEvents are percent-encoded UTF-8."""
    return text_of(unquote_to_bytes(value), name.decode("ascii", "replace"))
