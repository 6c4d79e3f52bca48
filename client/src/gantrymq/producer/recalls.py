"""Cancels delayed messages (370). A recall handle names topic, broker, time and message."""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

from gantry_link.errors import BrokerRefused, LinkError
from gantry_wire.codes import RequestCode
from gantry_wire.errors import WireError
from gantry_wire.headers.messages import RecallHeader, RecallReplyHeader
from gantrymq.connection.instance import ClientInstance
from gantrymq.errors import InvalidMessage, sdk_error
from gantrymq.message import SendResult

_VERSION, _PARTS = "v1", 5


class RecallHandle(NamedTuple):
    """The content of a recall handle."""

    topic: str
    broker: str
    deliver_ms: int
    unique_id: str


def parse_handle(handle: str) -> RecallHandle:
    """Return the content of a handle; InvalidMessage if it is invalid."""
    try:
        parts = base64.urlsafe_b64decode(handle.encode() + b"=" * (-len(handle) % 4)).decode().split(" ")
        if len(parts) == _PARTS and parts[0] == _VERSION:
            return RecallHandle(parts[1], parts[2], int(parts[3]), parts[4])
    except (binascii.Error, ValueError):
        pass
    raise InvalidMessage(
        "handle", f"{handle[:64]!r} is not a recall handle; the result of a timed send has one"
    )


async def recall(instance: ClientInstance, group: str, result: SendResult | str) -> str:
    """Cancel a message; returns its unique id. InvalidMessage, NoRoute, Refused, ConnectionFailed, TimedOut."""
    handle = result.recall_handle if isinstance(result, SendResult) else result
    if not isinstance(handle, str):
        raise InvalidMessage(
            "handle", "the result has none: only messages sent for an instant can be cancelled"
        )
    said = parse_handle(handle)
    await instance.route(said.topic)
    header = RecallHeader(topic=said.topic, recall_handle=handle, producer_group=group)
    doing = f"cancelling message {said.unique_id} of topic {said.topic}"
    try:
        answer = await instance.store(said.broker).ask(RequestCode.RECALL_MESSAGE, header)
        return answer.read(RecallReplyHeader).msg_id
    except (BrokerRefused, LinkError, WireError) as error:
        raise sdk_error(error, doing) from error
