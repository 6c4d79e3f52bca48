"""Bodies of receive and acknowledge as msgspec Structs, for the decoders, the encoder and the OpenAPI."""

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct

from gantry_wire.private_requests.leases import INVISIBLE_MS_MAX, REASON_CHARS_MAX, RECEIVE_MESSAGES_MAX
from gateway.messages.schemas import MessageOut
from gateway.receive.receipts import HANDLE_CHARS_MAX
from gateway.requests.fields import Body, one_of
from gateway.requests.limits import ITEMS_MAX

WAIT_SECONDS_MAX = 30
INVISIBLE_SECONDS_MAX = INVISIBLE_MS_MAX // 1000
INVISIBLE_SECONDS_DEFAULT = 30
MESSAGES_DEFAULT = 16
NACK_SECONDS_MAX = 40 * 24 * 3600
FILTER_CHARS_MAX = 32 * 1024

Handle = Annotated[
    str, Meta(min_length=1, max_length=HANDLE_CHARS_MAX, description="The handle of the received message.")
]
InvisibleSeconds = Annotated[
    int,
    Meta(
        ge=1,
        le=INVISIBLE_SECONDS_MAX,
        description="How long the messages stay invisible to other clients of the group.",
    ),
]


_ITEMS = Meta(extra_json_schema={"maxItems": ITEMS_MAX})
"""The limit applies to both lists together; the route checks it."""


class FilterIn(Body):
    """The messages that a group receives."""

    expression: Annotated[str, Meta(max_length=FILTER_CHARS_MAX, description="`a || b`, or a condition.")]
    type: Literal["tag", "sql92"] = "tag"


class ReceiveRequest(Body):
    """How many messages to receive, and for how long."""

    max_messages: Annotated[int, Meta(ge=1, le=RECEIVE_MESSAGES_MAX)] = MESSAGES_DEFAULT
    wait_seconds: Annotated[
        int, Meta(ge=0, le=WAIT_SECONDS_MAX, description="How long to wait while there is no message.")
    ] = 0
    invisible_seconds: InvisibleSeconds = INVISIBLE_SECONDS_DEFAULT
    filter: Annotated[FilterIn, Meta(description="The group's filter; a different one is 409.")] | None = None
    change_filter: Annotated[bool, Meta(description="Replace the group's filter by this one.")] = False


class ReceivedMessage(MessageOut, kw_only=True):
    """A leased message: acknowledge it with its handle before `invisibleUntil`."""

    receipt_handle: str
    invisible_until: str
    delivery_attempt: int


class ReceiveReply(Struct):
    """The messages received; empty if there were none."""

    messages: list[ReceivedMessage]


class AckIn(Body):
    """A message to acknowledge."""

    receipt_handle: Handle


class NackIn(Body):
    """A message to give back for another delivery."""

    receipt_handle: Handle
    delay_seconds: (
        Annotated[
            float,
            Meta(
                ge=0,
                le=NACK_SECONDS_MAX,
                description="Delay before the next delivery; by default the group's retry policy decides.",
            ),
        ]
        | None
    ) = None
    reason: (
        Annotated[str, Meta(max_length=REASON_CHARS_MAX, description="Stored with the dead letter.")] | None
    ) = None


class AckRequest(Struct, rename="camel", forbid_unknown_fields=True):
    """Messages to acknowledge, and messages to give back."""

    RULES: ClassVar[dict[str, Any]] = {
        "anyOf": [{"required": [name], "properties": {name: {"minItems": 1}}} for name in ("acks", "nacks")]
    }
    """At least one of them is required, for the OpenAPI document."""

    acks: Annotated[list[AckIn], _ITEMS] = []
    nacks: Annotated[list[NackIn], _ITEMS] = []


class ExtendIn(Body):
    """A message that needs more time."""

    receipt_handle: Handle


class ExtendRequest(Body):
    """Messages to keep for another `invisibleSeconds` from now."""

    extends: Annotated[list[ExtendIn], Meta(min_length=1, max_length=ITEMS_MAX)]
    invisible_seconds: InvisibleSeconds = INVISIBLE_SECONDS_DEFAULT


class AckResult(Struct, rename="camel", omit_defaults=True):
    """The result of one handle."""

    status: Literal["acked", "nacked", "extended", "leaseExpired", "invalidHandle"]
    invisible_until: str = ""


class AckReply(Struct):
    """Results in the order of the handles: first `acks`, then `nacks`."""

    results: Annotated[list[Any], Meta(extra_json_schema={"items": one_of("AckResult", "SendRefusal")})]
