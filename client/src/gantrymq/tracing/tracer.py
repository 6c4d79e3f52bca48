"""Collects the records of a producer or consumer and sends them to the trace topic.

Tracing never blocks: records that cannot be sent are dropped.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from typing import Any, Protocol

from gantrymq.errors import GantryError
from gantrymq.hooks import SendContext
from gantrymq.message import Message, SendResult
from gantrymq.settings import ClientOptions, ClientSettings
from gantrymq.tracing.records import MessageType, TraceRecord, sent_record, trace_messages

log: logging.Logger = logging.getLogger("gantrymq")
PRODUCE, CONSUME = "PRODUCE", "CONSUME"
GROUP_PREFIX = "_INNER_TRACE_PRODUCER-"
GROUP_CHARACTERS_MAX = 100
"""The kept part of the group's name: kind and number follow."""
FLUSH_SECONDS = 0.2
RECORDS_MAX = 100
"""The most records of a trace message."""
WAITING_MAX = 2048
"""The most waiting records; beyond, new ones are dropped."""
SEND_SECONDS = 5.0
_numbers = itertools.count()


class TraceProducer(Protocol):
    """The producer of the records, as seen by a tracer."""

    async def start(self) -> Any:
        """Connect."""

    async def close(self) -> None:
        """Wait for outstanding messages, and stop."""

    def send_soon(self, message: Message, /) -> asyncio.Future[SendResult]:
        """Start to send a message."""
        ...


MakeProducer = Callable[[str, float, ClientOptions], TraceProducer]
"""Creates a producer of this group, with this timeout and these options."""


class Tracer:
    """Collects the records of a producer or consumer, and sends them with a separate producer."""

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
        """Send waiting records, and stop."""
        self._flush()
        if self._producer is not None:
            await self._producer.close()
            self._producer = None

    def add(self, record: TraceRecord) -> None:
        """Add a record; it is sent within a fifth of a second."""
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


class ProducerTrace:
    """The hook that records the sends of a producer."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def before_send(self, context: SendContext) -> None:
        """Do nothing: the outcome is not known yet."""

    def after_send(self, context: SendContext) -> None:
        """Record each message, unless the broker disables trace."""
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
