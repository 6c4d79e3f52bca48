"""Messages in the gateway's form, and in the user's. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from gantry_wire.records.message_record import SYS_COMPRESSED, SYS_COMPRESSION_LZ4, SYS_COMPRESSION_ZSTD
from gantrymq.errors import InvalidMessage
from gantrymq.formats.compression import decompress
from gantrymq.formats.json_bodies import body_fields
from gantrymq.message import KEY_SEPARATOR, Message, MessageQueue, SendResult, SendStatus

BODY_BYTES_MAX = 4 * 1024 * 1024
COMPRESSIONS = {"lz4": SYS_COMPRESSED | SYS_COMPRESSION_LZ4, "zstd": SYS_COMPRESSED | SYS_COMPRESSION_ZSTD}


class LeasedMessage(msgspec.Struct, rename="camel", kw_only=True):
    """A message on lease, with the names of `gantrymq.ReceivedMessage`. Acknowledge it before `invisible_until`."""

    message_id: str
    topic: str
    broker: str
    queue_id: int
    queue_offset: int
    offset_message_id: str
    keys: list[str]
    properties: dict[str, str]
    reconsume_times: int
    receipt_handle: str
    delivery_attempt: int
    """1 for the first delivery."""
    tag: str | None = None
    sharding_key: str | None = None
    born_at: datetime = msgspec.field(name="bornTimestamp")
    stored_at: datetime = msgspec.field(name="storeTimestamp")
    invisible_until: datetime
    """Until then no other consumer of the group gets it."""
    text: str | None = msgspec.field(name="body", default=None)
    """The body if it is UTF-8."""
    data: bytes | None = msgspec.field(name="bodyBase64", default=None)
    body_compression: str | None = None

    @property
    def body(self) -> bytes:
        """The body as sent, decompressed; UnreadableBody if that is impossible."""
        if self.text is not None:
            return self.text.encode()
        if self.body_compression is not None:
            return decompress(
                self.data or b"", COMPRESSIONS.get(self.body_compression.lower(), SYS_COMPRESSED)
            )
        return self.data or b""

    @property
    def queue(self) -> MessageQueue:
        """The queue of the message."""
        return MessageQueue(self.topic, self.broker, self.queue_id)

    @property
    def born_timestamp_ms(self) -> int:
        """The time of its creation, by its producer's clock (ms since 1970)."""
        return round(self.born_at.timestamp() * 1000)

    @property
    def store_timestamp_ms(self) -> int:
        """The time it was stored, by the broker's clock (ms since 1970)."""
        return round(self.stored_at.timestamp() * 1000)


class Received(msgspec.Struct):
    """The answer to a receive."""

    messages: list[LeasedMessage]


class Sent(msgspec.Struct, rename="camel"):
    """The outcome of one message of a send: stored, or refused for `code`."""

    status: str = ""
    message_id: str = ""
    offset_message_id: str = ""
    broker: str = ""
    queue_id: int = 0
    queue_offset: int | None = None
    duplicate: bool = False
    code: str = ""
    detail: str = ""
    retryable: bool = False
    field: str = ""
    retry_after_ms: int | None = None


class SendAnswer(msgspec.Struct):
    """The answer to a send."""

    results: list[Sent]


def message_body(message: Message, queue: MessageQueue | None, idempotency_key: str | None) -> dict[str, Any]:
    """Return a message in the gateway's form. Raises InvalidMessage if HTTP cannot carry it, or it is too large."""
    if message.flag:
        raise InvalidMessage("flag", "HTTP has no flag: leave it 0, or use gantrymq.Producer")
    if len(message.body) > BODY_BYTES_MAX:
        raise InvalidMessage("body", f"{len(message.body)} bytes; the limit is {BODY_BYTES_MAX}")
    if queue is not None and queue.topic != message.topic:
        raise InvalidMessage("queue", f"it belongs to {queue.topic}, the message to {message.topic}")
    if message.sharding_key is not None and queue is not None:
        raise InvalidMessage("queue", "give a queue or a sharding key, not both")
    when = None
    if message.deliver_at_ms is not None:
        when = _rfc3339(message.deliver_at_ms)
    fields: dict[str, Any] = {
        "tag": message.tag, "keys": message.keys.split(KEY_SEPARATOR) if message.keys else None, "properties": message.properties or None,
        "shardingKey": message.sharding_key, "idempotencyKey": idempotency_key, "delayLevel": message.delay_level or None,
        "delayMs": message.delay_ms, "deliverAt": when, "broker": queue.broker if queue else None,
        "queueId": queue.queue_id if queue else None,
    }  # fmt: skip
    return {
        **body_fields(message.body),
        **{name: value for name, value in fields.items() if value is not None},
    }


def send_result(topic: str, sent: Sent, *, is_timed: bool) -> SendResult:
    """Return the result of a stored message."""
    return SendResult(
        message_id=sent.message_id,
        queue=MessageQueue(topic, sent.broker, sent.queue_id),
        queue_offset=-1 if sent.queue_offset is None else sent.queue_offset,
        offset_message_id=sent.offset_message_id,
        status=SendStatus.SEND_OK,
        recall_handle=sent.message_id if is_timed else None,
        duplicate=sent.duplicate,
    )


def _rfc3339(milliseconds: int) -> str:
    try:
        instant = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidMessage("deliver_at", f"{milliseconds} ms since 1970 is out of range") from error
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")
