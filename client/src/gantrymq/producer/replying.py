"""Request and reply messages: the properties that connect them. Pure."""

from __future__ import annotations

from gantry_wire.messages.properties import CLUSTER, CORRELATION_ID, MSG_TYPE, REPLY_TO_CLIENT, TTL
from gantry_wire.names import REPLY_TOPIC_SUFFIX
from gantrymq.errors import InvalidMessage
from gantrymq.message import Message, ReceivedMessage

REPLY = "reply"


def request_properties(correlation_id: str, client_id: str, seconds: float) -> dict[str, str]:
    """Return the properties that make a message a request of this client."""
    return {
        CORRELATION_ID: correlation_id,
        REPLY_TO_CLIENT: client_id,
        TTL: str(max(1, round(seconds * 1000))),
    }


def reply_to(request: ReceivedMessage, body: bytes) -> Message:
    """Return the reply to a consumed request; send it with any producer. InvalidMessage if the message is not a request."""
    said = request.properties
    missing = [name for name in (CLUSTER, CORRELATION_ID, REPLY_TO_CLIENT) if name not in said]
    if missing:
        raise InvalidMessage("request", f"the message is not a request: it has no {', '.join(missing)}")
    properties = {
        MSG_TYPE: REPLY,
        CORRELATION_ID: said[CORRELATION_ID],
        REPLY_TO_CLIENT: said[REPLY_TO_CLIENT],
        TTL: said.get(TTL, "0"),
    }
    return Message(f"{said[CLUSTER]}_{REPLY_TOPIC_SUFFIX}", body, properties=properties)


def is_reply(message: Message) -> bool:
    """Whether a message is a reply."""
    return message.properties is not None and message.properties.get(MSG_TYPE) == REPLY
