"""Parameters of paths and queries, with the bounds that stand in the OpenAPI."""

from typing import Annotated, Any

from fastapi import Path, Query
from starlette.convertors import StringConvertor, register_url_convertor

from gateway.requests.models import GROUP_PATTERN, TOPIC_CHARS_MAX, TOPIC_PATTERN


class _Plain(StringConvertor):
    """A part of a path that is no verb: other methods on /groups/g:pause are 405, not a group of that name."""

    regex = "[^/]+(?<!:pause)(?<!:resume)"


class _Id(StringConvertor):
    """An id in a path that a verb may follow."""

    regex = "[^/:]+"


register_url_convertor("plain", _Plain())
register_url_convertor("id", _Id())

ID_PATTERN = r"^[A-Za-z0-9._~-]+$"

TopicPath = Annotated[
    str, Path(pattern=TOPIC_PATTERN, max_length=TOPIC_CHARS_MAX, description="Name of the topic.")
]
GroupPath = Annotated[
    str, Path(pattern=GROUP_PATTERN, max_length=120, description="Name of the consumer group.")
]
IdPath = Annotated[
    str,
    Path(pattern=ID_PATTERN, max_length=255, description="An offset id; or a unique id, then with `topic`."),
]
TopicQuery = Annotated[
    str, Query(pattern=TOPIC_PATTERN, max_length=TOPIC_CHARS_MAX, description="Name of the topic.")
]
TopicOrAll = Annotated[
    str,
    Query(
        pattern=TOPIC_PATTERN.replace("{1,", "{0,"),
        max_length=TOPIC_CHARS_MAX,
        description="Only this topic; empty: all.",
    ),
]
BrokerOrAll = Annotated[str, Query(max_length=255, description="Only on this broker; empty: on all.")]
TaskPath = Annotated[str, Path(pattern=ID_PATTERN, max_length=300, description="Id of the task.")]
TIME_SCHEMA = {
    "anyOf": [{"type": "string", "format": "date-time"}, {"type": "string", "pattern": "^[0-9]{1,18}$"}]
}
"""RFC 3339, or milliseconds since 1970."""

_WORDS = {
    400: "A field is malformed or out of bounds; `field` and `limit` say which.",
    401: "The bearer token is missing or wrong.",
    403: "Belongs to the system, or the topic's permission forbids it; or a web page of another origin, or a name in `Host` that is not ours.",
    404: "No such topic, group, broker or message.",
    405: "The resource does not have this method.",
    409: "It is over already, or was decided otherwise; `code` says what.",
    408: "The body did not arrive in time.",
    413: "The request or a body is over the limit.",
    415: "The media type is not taken here.",
    422: "Well formed, but cannot be carried out as it is.",
    429: "Overload or rate limit; wait `retryAfterMs`.",
    431: "Path and headers are too long.",
    501: "A broker in use does not know the request.",
    503: "Something that is needed is away or not ready; try again.",
    504: "Unknown whether stored: retry with the same idempotency key.",
    507: "The store's disk is full.",
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the problem responses of a call for its OpenAPI entry; those every call can give are added."""
    return {
        status: {
            "description": _WORDS[status],
            "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status in sorted({401, 403, 503, *statuses})
    }


def answers(schema: str, words: str) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI entry of a reply that msgspec builds: its schema stands by that name."""
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {200: {"description": words, "content": content}}
