"""The OpenAPI document: what FastAPI knows of its routes, and the hot calls, whose schemas come from msgspec."""

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from gantry_wire.limits import BODY_BYTES_MAX
from gateway.http.call import REQUEST_BYTES_MAX
from gateway.messages.schemas import (
    DeadLettersReply,
    MessageOut,
    MessagesReply,
    PullReply,
    SendRefusal,
    SendReply,
    SendRequest,
    SendResult,
    TimelineReply,
)
from gateway.process.openapi_hot import (
    CLOUD_EVENT,
    Document,
    lease_operations,
    lease_schemas,
    pull_operation,
    refine_message,
    send_operation,
)
from gateway.requests.models import ProblemShown
from gateway.requests.parameters import problems
from gateway.transactions.schemas import TRANSACTION_STRUCTS

SEND_PATH = "/v1/topics/{topic}/messages"
PULL_PATH = "/v1/topics/{topic}/queues/{broker}/{queueId}/messages"

_REF = "#/components/schemas/{name}"
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
    document["paths"] = {
        SEND_PATH: {"post": send_operation()},
        PULL_PATH: {"get": pull_operation()},
        **lease_operations(),
        **paths,
    }
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
        "receive and acknowledge": "Messages on lease, to be acknowledged one by one.",
        "topics": "Where messages go.",
        "groups": "Who reads, and how far they are.",
        "messages": "Looking messages up.",
        "schedules": "Messages that wait for their time.",
        "dead letters": "Messages that a group gave up.",
        "tasks": "Long work on many messages.",
        "transactions": "Messages that are delivered when they are committed.",
        "cluster": "Who takes part.",
        "reports": "What Spark made of the log, served from a folder.",
        "health": "For probes and monitoring.",
    }
    return [{"name": name, "description": text} for name, text in words.items()]


def _add_structs(schemas: Document) -> None:
    structs = [
        SendRequest,
        SendResult,
        SendRefusal,
        PullReply,
        MessagesReply,
        MessageOut,
        DeadLettersReply,
        TimelineReply,
        *TRANSACTION_STRUCTS,
    ]
    _refs, components = msgspec.json.schema_components(structs, ref_template=_REF)
    schemas.update(components)
    schemas.update(lease_schemas(_REF))
    refine_message(schemas["MessageIn"])
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
    responses.setdefault("400", problems(400)[400])
    for status, response in responses.items():
        if status in {"429", "503", "507"}:
            response.setdefault("headers", {})["Retry-After"] = {
                "schema": {"type": "integer", "minimum": 1},
                "description": "Seconds to wait, where trying again may help.",
            }
        response.setdefault("headers", {})["X-Request-Id"] = {"schema": {"type": "string"}}
