"""The OpenAPI document, generated from the operations and the types of their parameters, bodies and replies."""

import re
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import NODEFAULT, Struct

from gantry_wire.limits import BODY_BYTES_MAX
from gateway.http.call import REQUEST_BYTES_MAX
from gateway.http.problems import CONTENT_TYPE, ProblemBody
from gateway.messages.schemas import MessageIn, SendRefusal, SendResult
from gateway.receive.schemas import AckRequest, AckResult
from gateway.requests.fields import REFERENCE
from gateway.requests.operations import Document, Operation, Parameter
from gateway.send.cloud_events import EVENT_SCHEMA

VERSION = "0.1.0"
_DESCRIPTION = f"""A message broker with the semantics of Apache RocketMQ.

Errors are RFC 9457 problems with `code`, `retryable` and `requestId`; a wrong field is named in `field`, its bound in
`limit`. A request has at most {REQUEST_BYTES_MAX} bytes, a message body at most {BODY_BYTES_MAX}. Requests may be compressed
with gzip; replies are compressed if the client accepts gzip. `X-Request-Id` is accepted or generated, and returned."""
_TAGS = {
    "send and pull": "Messages in and out.",
    "receive and acknowledge": "Leased messages, acknowledged one by one.",
    "topics": "Topics and their queues.",
    "groups": "Consumer groups, their offsets and lag.",
    "messages": "Messages by id, key or time.",
    "schedules": "Delayed messages.",
    "dead letters": "Messages that a group failed to consume.",
    "tasks": "Long operations on many messages.",
    "transactions": "Messages that are delivered once committed.",
    "cluster": "Brokers and nameservers.",
    "reports": "Reports that Spark made from the log, served from a folder.",
    "users": "Users, their policies and tokens, where access control is on.",
    "health": "For probes and monitoring.",
}
_STATUSES = {
    400: "A field is malformed or out of bounds; `field` and `limit` say which.",
    401: "The credentials are missing or wrong.",
    403: "Belongs to the system, or the topic's permission forbids it; the user lacks a right; or a web page of another origin, or a name in `Host` that is not ours.",
    404: "No such topic, group, broker or message.",
    405: "The resource does not have this method.",
    408: "The body did not arrive in time.",
    409: "Already delivered, decided differently, or changed meanwhile; `code` says which.",
    413: "The request or a body is over the limit.",
    415: "The call does not accept this media type.",
    422: "Well formed, but cannot be carried out.",
    429: "Overload or rate limit; wait `retryAfterMs`.",
    431: "Path and headers are too long.",
    501: "A broker in use does not know the request.",
    503: "A required part is away or not ready; try again.",
    504: "Unknown whether stored: retry with the same idempotency key.",
    507: "The store's disk is full.",
}
_ALWAYS = {400, 401, 403, 503}
"""Problems that every call of the API can return."""
_HEALTH = ("/health/", "/metrics")
_RETRIED = {429, 503, 507}
_REQUEST_ID: Document = {"schema": {"type": "string"}}
_RETRY_AFTER: Document = {
    "schema": {"type": "integer", "minimum": 1},
    "description": "Seconds to wait before a retry.",
}
_INSIDE = (SendResult, SendRefusal, AckResult, ProblemBody)
"""Types that others refer to, or that every call returns."""
_REFINED = (MessageIn, AckRequest)
"""Types with rules beyond the types of their fields."""


def build(operations: Sequence[Operation], *, has_token: bool, has_users: bool) -> Document:
    """Return the whole document."""
    bearer: Document = {"bearer": []}
    basic: Document = {"basic": []}
    nobody: Document = {}
    security = [bearer, basic] if has_users else [bearer] if has_token else [nobody, bearer]
    shown = [one for one in operations if not one.details.is_hidden and one.method != "HEAD"]
    paths: Document = {}
    for one in shown:
        paths.setdefault(one.shown_path, {})[one.method.lower()] = _operation(one)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Gantry", "description": _DESCRIPTION, "version": VERSION},
        "paths": paths,
        "components": {
            "schemas": _schemas(kind for one in shown for kind in (one.body, one.reply) if kind is not None),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "basic": {"type": "http", "scheme": "basic"},
            },
        },
        "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
        "security": security,
    }


def _schemas(kinds: Iterable[type[Struct]]) -> Document:
    _references, schemas = msgspec.json.schema_components({*kinds, *_INSIDE}, ref_template=REFERENCE)
    for kind in _REFINED:
        schemas[kind.__name__] |= kind.RULES
    schemas["Problem"] = schemas.pop("ProblemBody") | {"title": "Problem"}
    schemas["CloudEvent"] = EVENT_SCHEMA
    return dict(sorted(schemas.items()))


def _operation(one: Operation) -> Document:
    details = one.details
    name = getattr(one.handler, "__name__", "")
    entry: Document = {
        "tags": [one.tag],
        "summary": details.summary or name.replace("_", " ").title(),
        "description": details.description or (one.handler.__doc__ or "").strip(),
        "operationId": details.name or re.sub(r"\W", "_", name + one.shown_path) + f"_{one.method.lower()}",
        "responses": _responses(one),
    }
    parameters = [*map(_parameter, one.parameters), *details.headers]
    if parameters:
        entry["parameters"] = parameters
    if one.body is not None:
        json = _content(one.body, details.body_example)
        if one.may_be_null:
            json["schema"] = {"anyOf": [json["schema"], {"type": "null"}]}
        content = {"application/json": json, **details.body_content}
        entry["requestBody"] = {"required": one.is_body_needed, "content": content}
    return entry


def _parameter(one: Parameter) -> Document:
    schema = msgspec.json.schema(one.kind)
    kinds = [kind for kind in schema.pop("anyOf", ()) if kind != {"type": "null"}]  # no parameter can be null
    schema |= kinds[0] if len(kinds) == 1 else {"anyOf": kinds} if kinds else {}
    entry: Document = {"name": one.name, "in": "path" if one.is_in_path else "query"}
    entry["required"] = one.default is NODEFAULT
    if description := schema.pop("description", ""):
        entry["description"] = description
    if one.default is not NODEFAULT and one.default is not None:
        schema["default"] = one.default
    return entry | {"schema": schema}


def _responses(one: Operation) -> Document:
    details = one.details
    content = details.reply_content
    if content is None and one.reply is not None:
        content = {"application/json": _content(one.reply, details.reply_example)}
    responses: Document = {"200": {"description": details.reply_description, "content": content}}
    always = {400} if one.shown_path.startswith(_HEALTH) else _ALWAYS
    for status in sorted(always | set(one.statuses)):
        problem = {CONTENT_TYPE: {"schema": {"$ref": REFERENCE.format(name="Problem")}}}
        responses[str(status)] = {"description": _STATUSES[status], "content": problem}
    if details.not_ready:
        responses["503"] = {"description": details.not_ready, "content": content}
    for status, response in responses.items():
        response["headers"] = {"X-Request-Id": _REQUEST_ID}
        if int(status) in _RETRIED:
            response["headers"]["Retry-After"] = _RETRY_AFTER
    return responses


def _content(kind: type[Struct], example: object) -> Document:
    entry: Document = {"schema": {"$ref": REFERENCE.format(name=kind.__name__)}}
    return entry if example is None else entry | {"example": example}
