"""The hot calls in the OpenAPI: send, pull, receive, acknowledge and extend. Their entries are written here because no FastAPI route makes them."""

from typing import Any

import msgspec

from gantry_wire.limits import BODY_BYTES_MAX, INT32_MAX, INT64_MAX, PULL_MESSAGES_MAX
from gantry_wire.sql92 import EXPRESSION_CHARS_MAX
from gateway.messages.examples import MESSAGE_EXAMPLE
from gateway.messages.property_names import RESERVED
from gateway.pull.routes import COUNT_DEFAULT, FILTER_CHARS_MAX, WAIT_SECONDS_MAX
from gateway.receive.routes import PATH
from gateway.receive.schemas import (
    AckRequest,
    AckResult,
    ExtendRequest,
    ReceivedMessage,
    ReceiveReply,
    ReceiveRequest,
)
from gateway.requests.limits import ITEMS_MAX
from gateway.requests.models import GROUP_PATTERN, TOPIC_CHARS_MAX, TOPIC_PATTERN
from gateway.requests.parameters import problems
from gateway.send.raw_messages import HEADER_OF

Document = dict[str, Any]


def _path(name: str, schema: Document, words: str) -> Document:
    return {"name": name, "in": "path", "required": True, "schema": schema, "description": words}


def _query(name: str, schema: Document, words: str) -> Document:
    return {"name": name, "in": "query", "required": False, "schema": schema, "description": words}


_TOPIC = _path(
    "topic", {"type": "string", "pattern": TOPIC_PATTERN, "maxLength": TOPIC_CHARS_MAX}, "Name of the topic."
)
_GROUP = _path(
    "group", {"type": "string", "pattern": GROUP_PATTERN, "maxLength": 120}, "Name of the consumer group."
)


def _header(name: str, words: str) -> Document:
    """Describe a header; what it may hold depends on the kind of body it comes with, so the schema is a text."""
    return {
        "name": name,
        "in": "header",
        "required": False,
        "schema": {"type": "string"},
        "description": words,
    }


_SEND_HEADERS = [
    *(
        _header(name, f"Of a raw body or a binary event: its `{field}`.")
        for field, name in HEADER_OF.items()
        if not field.startswith("body")
    ),
    *(
        _header(f"ce-{name}", f"Of a CloudEvent in binary mode: its attribute `{name}`.")
        for name in ("specversion", "id", "source", "type", "subject")
    ),
    _header("traceparent", "W3C trace context; kept as a property, as is `tracestate`."),
]


def send_operation() -> Document:
    """Describe the send: three ways in, one way out."""
    example = {"messages": [{"body": "hi", "tag": "a", "keys": ["o-1"], "properties": {"x": "1"}}]}
    result = {
        "status": "SEND_OK",
        "messageId": MESSAGE_EXAMPLE["messageId"],
        "offsetMessageId": MESSAGE_EXAMPLE["offsetMessageId"],
        "broker": "broker-a",
        "queueId": 3,
        "queueOffset": 17,
        "durability": "fsync",
    }
    binary: Document = {
        "schema": {"type": "string", "format": "binary", "minLength": 1, "maxLength": BODY_BYTES_MAX}
    }
    event: Document = {"schema": {"$ref": "#/components/schemas/CloudEvent"}, "example": _EVENT_EXAMPLE}
    batch: Document = {
        "schema": {
            "type": "array",
            "minItems": 1,
            "maxItems": 1000,
            "items": {"$ref": "#/components/schemas/CloudEvent"},
        },
        "example": [_EVENT_EXAMPLE],
    }
    return {
        "tags": ["send and pull"],
        "summary": "Send one or many messages",
        "description": "Results come in the order of the messages. A request with one message takes its result's status; "
        "with several the answer is 200 and each has a result or a refusal. A raw body (any other media type but a form) "
        "is one message, with its fields in `Mq-Tag`, `Mq-Keys`, `Mq-Queue-Id`, `Mq-Broker`, `Mq-Sharding-Key`, "
        "`Mq-Idempotency-Key`, `Mq-Property-<name>` and `Mq-Properties`; with `ce-*` headers it is a CloudEvent.",
        "operationId": "send_messages",
        "parameters": [_TOPIC, *_SEND_HEADERS],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {"$ref": "#/components/schemas/SendRequest"},
                    "example": example,
                },
                "application/octet-stream": binary,
                "application/cloudevents+json": event,
                "application/cloudevents-batch+json": batch,
            },
        },
        "responses": {
            "200": {
                "description": "A result for every message.",
                "content": {
                    "application/json": {
                        "schema": {"$ref": "#/components/schemas/SendReply"},
                        "example": {"results": [result]},
                    }
                },
            },
            **_problems(400, 403, 404, 408, 413, 415, 422, 429, 501, 504, 507),
        },
    }


def pull_operation() -> Document:
    """Describe the pull."""
    offset = {"type": "integer", "minimum": 0, "maximum": INT64_MAX, "default": 0}
    count = {"type": "integer", "minimum": 1, "maximum": PULL_MESSAGES_MAX, "default": COUNT_DEFAULT}
    wait = {"type": "integer", "minimum": 0, "maximum": WAIT_SECONDS_MAX, "default": 0}
    example = {
        "status": "FOUND",
        "nextOffset": 18,
        "minOffset": 0,
        "maxOffset": 18,
        "messages": [MESSAGE_EXAMPLE],
    }
    return {
        "tags": ["send and pull"],
        "summary": "Pull messages of one queue from an offset on",
        "description": "Held up to `waitSeconds` while there is nothing. Go on at `nextOffset`, whatever the status.",
        "operationId": "pull_messages",
        "parameters": [
            _TOPIC,
            _path("broker", {"type": "string", "minLength": 1}, "Name of the broker that holds the queue."),
            _path("queueId", {"type": "integer", "minimum": 0, "maximum": INT32_MAX}, "Number of the queue."),
            _query("offset", offset, "The first offset wanted."),
            _query("max", count, "How many messages at most."),
            _query("waitSeconds", wait, "How long to wait for a message."),
            _query(
                "filter",
                {"type": "string", "maxLength": FILTER_CHARS_MAX},
                "Tags, as `a || b`; nothing or `*`: all.",
            ),
            _query(
                "sql",
                {"type": "string", "minLength": 1, "maxLength": EXPRESSION_CHARS_MAX},
                "A condition in SQL92 over properties, instead of `filter`.",
            ),
            _query("encoding", {"type": "string", "enum": ["base64"]}, "Give every body as `bodyBase64`."),
        ],
        "responses": {
            "200": {
                "description": "FOUND with messages, or why there are none.",
                "content": {
                    "application/json": {
                        "schema": {"$ref": "#/components/schemas/PullReply"},
                        "example": example,
                    }
                },
            },
            **_problems(400, 403, 404, 422, 429, 431, 501),
        },
    }


_HANDLE = "AQAAAAAAAAAAAAAAEQAAAAEAAAABYnJva2VyLWExMjM0"


def lease_operations() -> Document:
    """Describe the three calls, by path."""
    receive = _lease_operation(
        "receive_messages",
        "Receive messages on lease",
        "Held up to `waitSeconds` while there is nothing; then 200 with no messages. Nobody else of the group gets the messages "
        "until `invisibleUntil`; what is not acknowledged by then comes again. A group that does not exist is made and starts at "
        "the oldest message. The filter belongs to the group: another one is 409 unless `changeFilter`; none means the group's.",
        ("ReceiveRequest", {"maxMessages": 16, "waitSeconds": 10, "invisibleSeconds": 30}),
        ("ReceiveReply", {"messages": []}),
        (400, 403, 404, 409, 413, 415, 422, 429),
    )
    receive["requestBody"]["required"] = False
    ack = _lease_operation(
        "acknowledge_messages",
        "Acknowledge messages, or give them back",
        f"1 to {ITEMS_MAX} handles. `acked` and `nacked` are durable; asking again changes nothing. A message given back too often "
        "becomes a dead letter, with the reason.",
        (
            "AckRequest",
            {
                "acks": [{"receiptHandle": _HANDLE}],
                "nacks": [{"receiptHandle": _HANDLE, "delaySeconds": 5, "reason": "no stock"}],
            },
        ),
        ("AckReply", {"results": [{"status": "acked"}, {"status": "nacked"}]}),
        (400, 403, 404, 413, 415, 429, 504, 507),
    )
    extend = _lease_operation(
        "extend_leases",
        "Keep messages longer, or not so long",
        "The lease ends `invisibleSeconds` from now; the handle stays the same. Not durable: a restart of the broker ends it.",
        ("ExtendRequest", {"extends": [{"receiptHandle": _HANDLE}], "invisibleSeconds": 60}),
        ("AckReply", {"results": [{"status": "extended", "invisibleUntil": "2026-01-01T00:00:00.000Z"}]}),
        (400, 403, 404, 413, 415, 429),
    )
    return {
        f"{PATH}/messages:receive": {"post": receive},
        f"{PATH}/messages:ack": {"post": ack},
        f"{PATH}/messages:extend": {"post": extend},
    }


def _lease_operation(
    name: str,
    summary: str,
    words: str,
    request: tuple[str, Document],
    reply: tuple[str, Document],
    statuses: tuple[int, ...],
) -> Document:
    return {
        "tags": ["receive and acknowledge"],
        "summary": summary,
        "description": words,
        "operationId": name,
        "parameters": [_TOPIC, _GROUP],
        "requestBody": {"required": True, "content": {"application/json": _content(request)}},
        "responses": {
            "200": {"description": "A result.", "content": {"application/json": _content(reply)}},
            **_problems(*statuses),
        },
    }


def _content(body: tuple[str, Document]) -> Document:
    name, example = body
    return {"schema": {"$ref": f"#/components/schemas/{name}"}, "example": example}


def _problems(*statuses: int) -> Document:
    return {str(status): response for status, response in problems(*statuses).items()}


_EVENT_EXAMPLE = {
    "specversion": "1.0",
    "id": "1",
    "source": "/shop",
    "type": "order.created",
    "subject": "o-1",
    "datacontenttype": "application/json",
    "data": {"total": 12},
}
CLOUD_EVENT: Document = {
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


_SEPARATORS = "\\u0001\\u0002"
_TEXT = f"^[^{_SEPARATORS}]+$"
_BASE64 = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"


def refine_message(schema: Document) -> None:
    """Add to a message's schema what msgspec's types do not say: what excludes what, and which characters may not be."""
    properties: Document = schema["properties"]
    body, body_base64 = properties["body"], properties["bodyBase64"]
    body_base64["anyOf"][0]["pattern"] = _BASE64
    nothing: Document = {"type": "null"}
    schema["oneOf"] = [
        {"required": ["body"], "properties": {"body": body["anyOf"][0], "bodyBase64": nothing}},
        {"required": ["bodyBase64"], "properties": {"bodyBase64": body_base64["anyOf"][0], "body": nothing}},
    ]
    properties["shardingKey"]["anyOf"][0]["pattern"] = _TEXT
    properties["tag"]["anyOf"][0]["pattern"] = rf"^(?!\*$)(?![\s\S]*\|\|){_TEXT[1:]}"
    properties["idempotencyKey"]["anyOf"][0]["pattern"] = (
        "^(?:[\\u0000\\u0003-\\u007F]{1,100}|[^\\u0001\\u0002]{1,25})$"
    )
    properties["keys"]["anyOf"][0]["items"]["pattern"] = f"^[^\\s{_SEPARATORS}]+$"
    named: Document = properties["properties"]["anyOf"][0]
    named["propertyNames"] = {"pattern": f"^(?!__)[^{_SEPARATORS}]+$", "not": {"enum": sorted(RESERVED)}}
    named["additionalProperties"]["pattern"] = _TEXT
    words = " A message is delayed in one way: by delayLevel, delayMs or deliverAt."
    for name in ("delayLevel", "delayMs"):
        properties[name]["anyOf"][0]["description"] += words
    properties["deliverAt"]["description"] = "Not before this instant; one that is past: at once." + words


def lease_schemas(ref: str) -> Document:
    """Return the schemas of their bodies."""
    structs = [ReceiveRequest, ReceiveReply, ReceivedMessage, AckRequest, ExtendRequest, AckResult]
    _refs, components = msgspec.json.schema_components(structs, ref_template=ref)
    schemas: Document = dict(components)
    kinds = [{"$ref": ref.format(name=name)} for name in ("AckResult", "SendRefusal")]
    schemas["AckReply"] = {
        "title": "AckReply",
        "description": "Results in the order of the handles: first `acks`, then `nacks`.",
        "type": "object",
        "properties": {"results": {"type": "array", "items": {"anyOf": kinds}}},
        "required": ["results"],
    }
    shown: Document = schemas["ReceivedMessage"]
    shown["required"] = [*shown["required"], "receiptHandle", "invisibleUntil", "deliveryAttempt"]
    for name in ("acks", "nacks"):
        schemas["AckRequest"]["properties"][name]["maxItems"] = ITEMS_MAX
    one_at_least = [{"required": [name], "properties": {name: {"minItems": 1}}} for name in ("acks", "nacks")]
    schemas["AckRequest"]["anyOf"] = one_at_least
    return schemas
