"""How receive, acknowledge and extend stand in the OpenAPI: written here because no FastAPI route makes them."""

from typing import Any

import msgspec

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

Document = dict[str, Any]
_TAG = "receive and acknowledge"
_HANDLE = "AQAAAAAAAAAAAAAAEQAAAAEAAAABYnJva2VyLWExMjM0"
_PARAMETERS = [
    {
        "name": "topic", "in": "path", "required": True, "description": "Name of the topic.",
        "schema": {"type": "string", "pattern": TOPIC_PATTERN, "maxLength": TOPIC_CHARS_MAX},
    },
    {
        "name": "group", "in": "path", "required": True, "description": "Name of the consumer group.",
        "schema": {"type": "string", "pattern": GROUP_PATTERN, "maxLength": 120},
    },
]  # fmt: skip


def lease_operations() -> Document:
    """Describe the three calls, by path."""
    receive = _operation(
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
    ack = _operation(
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
    extend = _operation(
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


def _operation(
    name: str,
    summary: str,
    words: str,
    request: tuple[str, Document],
    reply: tuple[str, Document],
    statuses: tuple[int, ...],
) -> Document:
    return {
        "tags": [_TAG],
        "summary": summary,
        "description": words,
        "operationId": name,
        "parameters": _PARAMETERS,
        "requestBody": {"required": True, "content": {"application/json": _content(request)}},
        "responses": {
            "200": {"description": "A result.", "content": {"application/json": _content(reply)}},
            **{str(status): response for status, response in problems(*statuses).items()},
        },
    }


def _content(body: tuple[str, Document]) -> Document:
    name, example = body
    return {"schema": {"$ref": f"#/components/schemas/{name}"}, "example": example}
