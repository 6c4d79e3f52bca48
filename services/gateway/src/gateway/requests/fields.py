"""Field and parameter types that several calls share, with their bounds. Both decoding and the OpenAPI use them. Pure."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from gantry_wire.limits import INT32_MAX

QUEUES_MAX = 1024
TOPIC_PATTERN = r"^[%|a-zA-Z0-9_-]{1,127}$"
TOPIC_CHARS_MAX = 127
GROUP_PATTERN = r"^[%|a-zA-Z0-9_-]{1,120}$"
GROUP_CHARS_MAX = 120
ID_PATTERN = r"^[A-Za-z0-9._~-]+$"
BROKER_CHARS_MAX = 255
REPLICA_PATTERN = r"^[A-Za-z0-9_.-]{0,64}$"
KEY_CHARS_MAX = 1024

OFFSET_MAX = 2**53 - 1
"""The largest integer that every JSON reader represents exactly."""

TopicText = Annotated[str, Meta(pattern=TOPIC_PATTERN, max_length=TOPIC_CHARS_MAX)]
GroupText = Annotated[str, Meta(pattern=GROUP_PATTERN, max_length=GROUP_CHARS_MAX)]
BrokerText = Annotated[str, Meta(min_length=1, max_length=BROKER_CHARS_MAX)]
QueueId = Annotated[int, Meta(ge=0, le=INT32_MAX)]
Offset = Annotated[int, Meta(ge=0, le=OFFSET_MAX)]
Perm = Literal["rw", "r", "w"]
PermShown = Literal["rw", "r", "w", "none"]

TopicName = Annotated[TopicText, Meta(description="Name of the topic.")]
GroupName = Annotated[GroupText, Meta(description="Name of the consumer group.")]
MessageId = Annotated[
    str,
    Meta(
        pattern=ID_PATTERN,
        max_length=255,
        description="An offset id; or a unique id, then with `topic`.",
    ),
]
TopicOrAll = Annotated[
    str,
    Meta(
        pattern=TOPIC_PATTERN.replace("{1,", "{0,"),
        max_length=TOPIC_CHARS_MAX,
        description="Only this topic; empty: all.",
    ),
]
BrokerOrAll = Annotated[
    str, Meta(max_length=BROKER_CHARS_MAX, description="Only on this broker; empty: on all.")
]
KeyOrAll = Annotated[
    str,
    Meta(max_length=KEY_CHARS_MAX, pattern=r"^\S*$", description="One of the message's keys; empty: any."),
]
TimeText = Annotated[
    str,
    Meta(
        description="RFC 3339, or milliseconds since 1970.",
        extra_json_schema={
            "anyOf": [
                {"type": "string", "format": "date-time"},
                {"type": "string", "pattern": "^[0-9]{1,18}$"},
            ]
        },
    ),
]


class Body(Struct, rename="camel", forbid_unknown_fields=True):
    """A request body: names in camelCase, no unknown fields."""


class Shown(Struct, rename="camel"):
    """A reply body: names in camelCase, every field present."""


def one_of(*kinds: str) -> dict[str, Any]:
    """Return the schema of a union of these types; msgspec does not describe unions of untagged structs."""
    return {"anyOf": [{"$ref": REFERENCE.format(name=kind)} for kind in kinds]}


REFERENCE = "#/components/schemas/{name}"
"""Name of a schema in the OpenAPI document."""
