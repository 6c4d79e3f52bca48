"""Message trace: one record a message sent or consumed, gathered and sent to the trace topic in RocketMQ's format.

A record's fields are divided by 0x01, records by 0x02. Trace is lost rather than in the way: what cannot be sent is dropped.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Protocol

from gantry.errors import GantryError
from gantry.hooks import EndContext, SendContext
from gantry.message import Message, SendResult
from gantry.settings import ClientOptions, ClientSettings

log: logging.Logger = logging.getLogger("gantry")
FIELD, RECORD = "\x01", "\x02"
PRODUCE, CONSUME = "PRODUCE", "CONSUME"
GROUP_PREFIX = "_INNER_TRACE_PRODUCER-"
GROUP_CHARACTERS_MAX = 100
"""What is kept of the group's name: kind and number follow."""
FLUSH_SECONDS = 0.2
RECORDS_MAX = 100
"""Of a trace message."""
TRACE_BYTES_MAX = 128_000
WAITING_MAX = 2048
"""Records that wait to be sent; beyond, new ones are dropped."""
SEND_SECONDS = 5.0
_numbers = itertools.count()


class MessageType(IntEnum):
    """RocketMQ's kinds of messages, by their ordinal."""

    NORMAL = 0
    HALF = 1
    COMMIT = 2
    DELAY = 3
    ORDER = 4


@dataclass(frozen=True, slots=True)
class TraceRecord:
    """One record as text, and what the trace message is found by."""

    text: str
    keys: tuple[str, ...] = field(default_factory=tuple)


def sent_record(
    context: SendContext, message: Message, result: SendResult | None, kind: MessageType, region: str
) -> TraceRecord:
    """Return the record of a message that was sent, or failed."""
    unique = message.unique_id or ""
    parts = (
        "Pub", context.started_ms, region, context.group, message.topic, unique, message.tag or "", message.keys,
        context.address, len(message.body), round(context.seconds * 1000), int(kind),
        result.offset_message_id if result else "", "true" if result else "false",
    )  # fmt: skip
    return _record(parts, unique, message.keys)


def ended_record(context: EndContext, region: str) -> TraceRecord:
    """Return the record of a transaction's decision."""
    message = context.message
    unique, tag, keys = message.unique_id or "", message.tag or "", message.keys
    parts = (
        "EndTransaction", context.started_ms, region, context.group, message.topic, unique, tag, keys, context.address,
        int(MessageType.COMMIT), context.transaction_id, context.state, "true" if context.from_check else "false",
    )  # fmt: skip
    return _record(parts, unique, keys)


def before_record(
    group: str, region: str, request_id: str, *, started_ms: int, message_id: str, retries: int, keys: str
) -> TraceRecord:
    """Return the record of a message that is about to be consumed."""
    parts = ("SubBefore", started_ms, region, group, request_id, message_id, retries, keys)
    return _record(parts, message_id, keys)


def after_record(
    group: str,
    request_id: str,
    *,
    message_id: str,
    milliseconds: int,
    success: bool,
    keys: str,
    context_code: int,
    ended_ms: int,
) -> TraceRecord:
    """Return the record of a message that was consumed. `context_code`: 0 success, 1 time-out, 2 error, 3 null, 4 failed."""
    parts = (
        "SubAfter", request_id, message_id, milliseconds, "true" if success else "false", keys, context_code, ended_ms,
        group,
    )  # fmt: skip
    return _record(parts, message_id, keys)


def _record(parts: Iterable[object], message_id: str, keys: str) -> TraceRecord:
    text = FIELD.join(str(part).replace(FIELD, " ").replace(RECORD, " ") for part in parts) + RECORD
    return TraceRecord(text, (message_id, *keys.split()))


class TraceProducer(Protocol):
    """What a tracer needs of the producer that sends its records."""

    async def start(self) -> Any:
        """Connect."""

    async def close(self) -> None:
        """Send what is on its way, and end."""

    def send_soon(self, message: Message, /) -> asyncio.Future[SendResult]:
        """Begin to send a message."""
        ...


MakeProducer = Callable[[str, float, ClientOptions], TraceProducer]
"""Makes a producer of this group, with this time for each send and these options."""


class Tracer:
    """Gathers the records of one producer or consumer, and sends them with a producer of its own."""

    def __init__(
        self, settings: ClientSettings, group: str, kind: str, topic: str, make: MakeProducer
    ) -> None:
        self._settings = settings
        self._make = make
        self._group = f"{GROUP_PREFIX}{group}"[:GROUP_CHARACTERS_MAX] + f"-{kind}-{next(_numbers)}"
        self._topic = topic
        self._producer: TraceProducer | None = None
        self._waiting: list[TraceRecord] = []
        self._timer: asyncio.TimerHandle | None = None
        self.dropped: int = 0

    async def start(self) -> None:
        """Start the producer of the records."""
        same = ClientOptions(
            **{name: getattr(self._settings, name) for name in ClientOptions.__annotations__}
        )  # type: ignore[typeddict-item]
        self._producer = self._make(self._group, SEND_SECONDS, same)
        await self._producer.start()

    async def close(self) -> None:
        """Send what waits, and end."""
        self._flush()
        if self._producer is not None:
            await self._producer.close()
            self._producer = None

    def add(self, record: TraceRecord) -> None:
        """Take a record; it is sent within a fifth of a second."""
        if len(self._waiting) >= WAITING_MAX:
            self.dropped += 1
            return
        self._waiting.append(record)
        if len(self._waiting) >= RECORDS_MAX:
            self._flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self._flush)

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        records, self._waiting = self._waiting, []
        for message in trace_messages(self._topic, records):
            self._send(message)

    def _send(self, message: Message) -> None:
        if self._producer is None:
            return
        try:
            sent = self._producer.send_soon(message)
        except GantryError as error:
            log.debug("a trace record was dropped: %s", error)
        else:
            sent.add_done_callback(_note)


def trace_messages(topic: str, records: Iterable[TraceRecord]) -> list[Message]:
    """Return records as messages of bounded size, each found by the ids and keys of what it tells about."""
    messages: list[Message] = []
    texts: list[str] = []
    keys: dict[str, None] = {}
    size = 0
    for record in records:
        if texts and size + len(record.text) > TRACE_BYTES_MAX:
            messages.append(Message(topic, "".join(texts).encode(), keys=keys))
            texts, keys, size = [], {}, 0
        texts.append(record.text)
        keys.update(dict.fromkeys(filter(None, record.keys)))
        size += len(record.text)
    if texts:
        messages.append(Message(topic, "".join(texts).encode(), keys=keys))
    return messages


class ProducerTrace:
    """The hook that records what a producer sends."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def before_send(self, context: SendContext) -> None:
        """Nothing is known yet."""

    def after_send(self, context: SendContext) -> None:
        """Record each message, unless the broker wants no trace."""
        for message, result in zip(context.messages, context.results, strict=False):
            if result is not None and result.region is not None and result.trace_on:
                self._tracer.add(
                    sent_record(context, message, result, _kind(context, message), result.region)
                )


def _kind(context: SendContext, message: Message) -> MessageType:
    if context.kind == "half":
        return MessageType.HALF
    return MessageType.DELAY if message.is_timed else MessageType.NORMAL


def _note(done: asyncio.Future[SendResult]) -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        log.debug("a trace record was dropped: %s", error)
