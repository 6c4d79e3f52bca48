"""Bodies of send and pull as msgspec Structs, for the decoder, the encoder and the OpenAPI."""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct
from msgspec.structs import astuple

from gantry_wire.limits import INT64_MAX
from gateway.messages.property_names import RESERVED
from gateway.requests.fields import Body, QueueId, one_of
from gateway.requests.limits import KEYS_MAX, MESSAGES_MAX

IDEMPOTENCY_KEY_BYTES_MAX = 100
DELAY_LEVEL_MAX = 18

Text = Annotated[str, Meta(min_length=1)]
FieldNames = Callable[[int, str], str]
"""Converts place and field of a message to the name the client wrote (a path in JSON, a header)."""


_SEPARATORS = "\\u0001\\u0002"
_TEXT_PATTERN = f"^[^{_SEPARATORS}]+$"
_BASE64 = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
_ONE_DELAY = " A message is delayed in one way: by delayLevel, delayMs or deliverAt."


def _described(description: str, pattern: str = "", **more: object) -> Meta:
    """Return a description with rules that `send.drafts` checks: they are in the OpenAPI document, but decoding ignores them."""
    return Meta(description=description, extra_json_schema=({"pattern": pattern} if pattern else {}) | more)


BodyText = Annotated[str, Meta(description="The body as text; stored as UTF-8.")]
BodyBytes = Annotated[bytes, _described("The body as bytes, in base64.", _BASE64)]
Tag = Annotated[Text, _described("Consumers filter by it.", rf"^(?!\*$)(?![\s\S]*\|\|){_TEXT_PATTERN[1:]}")]
Keys = Annotated[
    list[Annotated[Text, _described("No spaces.", f"^[^\\s{_SEPARATORS}]+$")]],
    Meta(max_length=KEYS_MAX, description="Business keys; messages are found by them."),
]
_NAME_RULES = {"pattern": f"^(?!__)[^{_SEPARATORS}]+$", "not": {"enum": sorted(RESERVED)}}
Properties = Annotated[
    dict[
        Annotated[Text, Meta(extra_json_schema=_NAME_RULES)],
        Annotated[Text, Meta(extra_json_schema={"pattern": _TEXT_PATTERN})],
    ],
    Meta(description="Names and values of your own."),
]
IdempotencyKey = Annotated[
    str,
    Meta(min_length=1, max_length=IDEMPOTENCY_KEY_BYTES_MAX),
    _described(
        "A repeat with this key is stored once; at most 100 bytes of UTF-8.",
        "^(?:[\\u0000\\u0003-\\u007F]{1,100}|[^\\u0001\\u0002]{1,25})$",
    ),
]
Millis = Annotated[int, Meta(ge=0, le=INT64_MAX)]


class MessageIn(Body):
    """One message to send: `body` (text) or `bodyBase64` (bytes), and its optional fields."""

    RULES: ClassVar[dict[str, Any]] = {
        "oneOf": [
            {"required": [given], "properties": {given: {"type": "string"}, other: {"type": "null"}}}
            for given, other in (("body", "bodyBase64"), ("bodyBase64", "body"))
        ]
    }
    """Mutually exclusive fields, for the OpenAPI document."""

    body: BodyText | None = None
    body_base64: BodyBytes | None = None
    broker: Annotated[Text, Meta(description="Send to a queue of this broker only.")] | None = None
    tag: Tag | None = None
    keys: Keys | None = None
    properties: Properties | None = None
    sharding_key: Annotated[Text, _described("Same key, same queue, in order.", _TEXT_PATTERN)] | None = None
    queue_id: (
        Annotated[QueueId, Meta(description="The queue; needs `broker` if several brokers have the topic.")]
        | None
    ) = None
    delay_level: (
        Annotated[
            int,
            Meta(
                ge=0,
                le=DELAY_LEVEL_MAX,
                description=f"Delay by level of the store's list; 0: none.{_ONE_DELAY}",
            ),
        ]
        | None
    ) = None
    delay_ms: (
        Annotated[Millis, Meta(description=f"Delay in ms, up to the horizon; 0: none.{_ONE_DELAY}")] | None
    ) = None
    deliver_at: Annotated[
        Annotated[datetime, Meta(tz=True)]
        | Annotated[Millis, Meta(description="Milliseconds since 1970.")]
        | None,
        Meta(description=f"Deliver at this time; a past time: at once.{_ONE_DELAY}"),
    ] = None
    idempotency_key: IdempotencyKey | None = None


class SendRequest(Body):
    """One to 1000 messages for one topic."""

    messages: Annotated[list[MessageIn], Meta(min_length=1, max_length=MESSAGES_MAX)]


_FIELDS = len(MessageIn.__struct_fields__)


def count_names(items: list[MessageIn]) -> int:
    """Return how many different names these messages have: of fields, and of properties."""
    count = 1
    for item in items:
        count += _FIELDS - astuple(item).count(None)
        if item.properties:
            count += len(item.properties)
    return count


class SendResult(Struct, rename="camel", omit_defaults=True):
    """Where a message was stored."""

    status: Literal["SEND_OK"]
    message_id: str
    offset_message_id: str
    broker: str
    queue_id: int
    queue_offset: int | None
    """None for a delayed message: it gets its offset on delivery."""
    durability: Literal["fsync", "written"]
    duplicate: bool = False
    deliver_at: str | None = None


class SendRefusal(Struct, rename="camel", omit_defaults=True):
    """Why one message of several was not stored."""

    code: str
    detail: str
    retryable: bool
    retry_after_ms: int | None = None
    field: str = ""


class SendReply(Struct):
    """Results in the order of the messages."""

    results: Annotated[list[Any], Meta(extra_json_schema={"items": one_of("SendResult", "SendRefusal")})]


class DeadLetter(Struct, rename="camel", omit_defaults=True):
    """Why a message was dead-lettered, and its origin."""

    reason: str
    attempts: int
    redriven: bool
    """Whether it was redriven; it stays listed until retention removes it."""
    consumer: str | None = None
    origin_topic: str | None = None
    origin_queue_id: int | None = None
    origin_offset: int | None = None
    origin_message_id: str | None = None


class MessageOut(Struct, rename="camel", omit_defaults=True):
    """One message as read; UTF-8 bodies are in `body`, others in `bodyBase64`."""

    message_id: str
    topic: str
    broker: str
    queue_id: int
    queue_offset: int
    keys: list[str]
    properties: dict[str, str]
    born_timestamp: str
    store_timestamp: str
    reconsume_times: int
    offset_message_id: str
    tag: str | None = None
    body: str | None = None
    body_base64: bytes | None = None
    body_compression: str | None = None
    sharding_key: str | None = None
    idempotency_key: str | None = None
    system_properties: dict[str, str] | None = None
    dead_letter: DeadLetter | None = None


class PullReply(Struct, rename="camel"):
    """The messages of a pull, and the offset to continue at."""

    status: Literal["FOUND", "NO_NEW_MSG", "NO_MATCHED_MSG", "OFFSET_ILLEGAL"]
    next_offset: int
    min_offset: int
    max_offset: int
    messages: list[MessageOut]


class DeadLettersReply(Struct, rename="camel"):
    """Dead letters, oldest first. Pass `next` as `after` to get the next page; `missing` brokers could not be asked."""

    messages: list[MessageOut]
    next: str | None
    missing: list[str]


class TimelineEvent(Struct, rename="camel", omit_defaults=True):
    """One event of a message, or (without `at`) its current state; the place of its record, and further details."""

    event: str
    at: str | None
    broker: str
    topic: str
    queue_id: int
    queue_offset: int
    offset_message_id: str
    group: str | None = None
    detail: dict[str, str] = {}


class TimelineReply(Struct, rename="camel"):
    """The events of a message, in order of time; events at the brokers in `missing` are not included."""

    message_id: str
    topic: str
    events: list[TimelineEvent]
    missing: list[str]


class MessagesReply(Struct, rename="camel"):
    """Messages found by key or time; `truncated` if there are more than requested."""

    messages: list[MessageOut]
    truncated: bool
