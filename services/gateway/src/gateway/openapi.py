"""The OpenAPI document: what FastAPI knows of its routes, and the hot calls, whose schemas come from msgspec."""

from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from gantry_wire.limits import BODY_BYTES_MAX, INT32_MAX, INT64_MAX, PULL_MESSAGES_MAX
from gateway.call import REQUEST_BYTES_MAX
from gateway.models import TOPIC_PATTERN, ProblemShown
from gateway.routes.parameters import problems
from gateway.routes.pull import COUNT_DEFAULT, FILTER_CHARS_MAX, WAIT_SECONDS_MAX
from gateway.schemas import (
    MessageOut,
    MessagesReply,
    PullReply,
    SendRefusal,
    SendReply,
    SendRequest,
    SendResult,
)

SEND_PATH = "/v1/topics/{topic}/messages"
PULL_PATH = "/v1/topics/{topic}/queues/{broker}/{queueId}/messages"

Document = dict[str, Any]

_REF = "#/components/schemas/{name}"
_MESSAGE_EXAMPLE = {
    "messageId": "7F0000010A1B00000000000012345678",
    "topic": "orders",
    "broker": "broker-a",
    "queueId": 3,
    "queueOffset": 17,
    "keys": ["o-1"],
    "properties": {"x": "1"},
    "bornTimestamp": "2026-01-01T00:00:00.000Z",
    "storeTimestamp": "2026-01-01T00:00:00.001Z",
    "reconsumeTimes": 0,
    "offsetMessageId": "7F00000100002A9F0000000000000000",
    "tag": "a",
    "body": "hi",
}
_DESCRIPTION = f"""A message broker with the semantics of Apache RocketMQ.

Errors are RFC 9457 problems with `code`, `retryable` and `requestId`; a wrong field is named in `field`, its bound in
`limit`. A request has at most {REQUEST_BYTES_MAX} bytes, a message body at most {BODY_BYTES_MAX}. Requests may be packed
with gzip, replies are where the client takes it. `X-Request-Id` is taken over or made, and comes back."""


def build(app: FastAPI, *, has_token: bool) -> Document:
    """Return the whole document."""
    document = get_openapi(
        title="Gantry", version=app.version, description=_DESCRIPTION, routes=app.routes, tags=_tags()
    )
    schemas: Document = document.setdefault("components", {}).setdefault("schemas", {})
    _add_structs(schemas)
    schemas["CloudEvent"] = CLOUD_EVENT
    schemas["Problem"] = ProblemShown.model_json_schema(
        ref_template="#/components/schemas/{model}", mode="serialization"
    )
    paths: Document = document["paths"]
    document["paths"] = {SEND_PATH: {"post": _send()}, PULL_PATH: {"get": _pull()}, **paths}
    for path in document["paths"].values():
        for operation in path.values():
            _finish(operation)
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    document["components"]["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"bearer": []}] if has_token else [{}, {"bearer": []}]
    return document


def _tags() -> list[dict[str, str]]:
    words = {
        "send and pull": "Messages in and out.",
        "topics": "Where messages go.",
        "groups": "Who reads, and how far they are.",
        "messages": "Looking messages up.",
        "cluster": "Who takes part.",
        "health": "For probes and monitoring.",
    }
    return [{"name": name, "description": text} for name, text in words.items()]


def _add_structs(schemas: Document) -> None:
    structs = [SendRequest, SendResult, SendRefusal, PullReply, MessagesReply, MessageOut]
    _refs, components = msgspec.json.schema_components(structs, ref_template=_REF)
    schemas.update(components)
    kinds = [{"$ref": _REF.format(name=kind.__name__)} for kind in (SendResult, SendRefusal)]
    schemas["SendReply"] = {
        "title": "SendReply",
        "description": SendReply.__doc__,
        "type": "object",
        "properties": {"results": {"type": "array", "items": {"anyOf": kinds}}},
        "required": ["results"],
    }


def _finish(operation: Document) -> None:
    """Take out FastAPI's own 422, which is never answered, and name the header every answer has."""
    responses: Document = operation["responses"]
    unused = responses.get("422", {})
    if "HTTPValidationError" in str(unused):
        del responses["422"]
    for response in responses.values():
        response.setdefault("headers", {})["X-Request-Id"] = {"schema": {"type": "string"}}


def _path(name: str, schema: Document, words: str) -> Document:
    return {"name": name, "in": "path", "required": True, "schema": schema, "description": words}


def _query(name: str, schema: Document, words: str) -> Document:
    return {"name": name, "in": "query", "required": False, "schema": schema, "description": words}


_TOPIC = _path("topic", {"type": "string", "pattern": TOPIC_PATTERN, "maxLength": 255}, "Name of the topic.")


def _send() -> Document:
    """Describe the send: three ways in, one way out."""
    example = {"messages": [{"body": "hi", "tag": "a", "keys": ["o-1"], "properties": {"x": "1"}}]}
    result = {
        "status": "SEND_OK",
        "messageId": _MESSAGE_EXAMPLE["messageId"],
        "offsetMessageId": _MESSAGE_EXAMPLE["offsetMessageId"],
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
        "parameters": [_TOPIC],
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


def _pull() -> Document:
    """Describe the pull."""
    offset = {"type": "integer", "minimum": 0, "maximum": INT64_MAX, "default": 0}
    count = {"type": "integer", "minimum": 1, "maximum": PULL_MESSAGES_MAX, "default": COUNT_DEFAULT}
    wait = {"type": "integer", "minimum": 0, "maximum": WAIT_SECONDS_MAX, "default": 0}
    example = {
        "status": "FOUND",
        "nextOffset": 18,
        "minOffset": 0,
        "maxOffset": 18,
        "messages": [_MESSAGE_EXAMPLE],
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
            **_problems(400, 403, 404, 429, 501),
        },
    }


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
