"""Messages that consumers see only if a local transaction succeeds: first the half, then the transaction, then the decision.

The broker asks (39) about undecided halves; the listener's check answers, in this process or in another of the group.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Any, Protocol, TypeAlias, Unpack, cast

import msgspec

from gantry_link.errors import LinkError
from gantry_wire.codes import RequestCode
from gantry_wire.errors import MalformedMessageId
from gantry_wire.frames.command import Command
from gantry_wire.headers.messages import CheckTransactionHeader, EndTransactionHeader
from gantry_wire.messages.ids import parse_offset_message_id
from gantry_wire.messages.properties import PRODUCER_GROUP, TRANSACTION_PREPARED
from gantry_wire.records.message_record import (
    SYS_TRANSACTION_COMMIT,
    SYS_TRANSACTION_PREPARED,
    SYS_TRANSACTION_ROLLBACK,
)
from gantrymq.connection.pushes import PushAnswer
from gantrymq.connection.transaction_checks import checked_record
from gantrymq.errors import ConfigurationError, GantryError, InvalidMessage, sdk_error
from gantrymq.hooks import EndContext
from gantrymq.machine import wall_ms
from gantrymq.message import Message, ReceivedMessage, SendResult, SendStatus, check_message
from gantrymq.producer.producer import Producer
from gantrymq.producer.sending.send import Send
from gantrymq.producer.sending.sender import Sender
from gantrymq.producer.settings import ProducerOptions
from gantrymq.tracing.records import ended_record

log: logging.Logger = logging.getLogger("gantrymq")
CHECKS_MAX = 16
"""The most concurrent checks; others wait."""


class TransactionState(StrEnum):
    """The outcome of a local transaction, in RocketMQ's words. UNKNOW: ask again later."""

    COMMIT_MESSAGE = "COMMIT_MESSAGE"
    ROLLBACK_MESSAGE = "ROLLBACK_MESSAGE"
    UNKNOW = "UNKNOW"


_TYPE = {
    TransactionState.COMMIT_MESSAGE: SYS_TRANSACTION_COMMIT,
    TransactionState.ROLLBACK_MESSAGE: SYS_TRANSACTION_ROLLBACK,
    TransactionState.UNKNOW: 0,
}
StateAnswer: TypeAlias = "TransactionState | Awaitable[TransactionState]"


class TransactionListener(Protocol):
    """Runs local transactions, and finds their outcomes. Methods are async, or plain: those run in their own thread."""

    def execute_local_transaction(self, message: Message, argument: Any) -> StateAnswer:
        """Run the transaction of a message whose half is stored. UNKNOW, or an exception: the broker asks later."""
        ...

    def check_local_transaction(self, message: ReceivedMessage) -> StateAnswer:
        """Return the outcome of a message's transaction; `message.transaction_id` names it. May be called more than once."""
        ...


class TransactionResult(msgspec.Struct, frozen=True):
    """The half was stored, and the local transaction has run."""

    result: SendResult
    state: TransactionState
    error: Exception | None = None
    """The listener's exception; the state is then UNKNOW, and the broker will ask."""


class TransactionProducer(Producer):
    """A producer whose messages become visible when their local transaction is committed. Options as of Producer."""

    def __init__(self, group: str, listener: TransactionListener, **options: Unpack[ProducerOptions]) -> None:
        super().__init__(group, **options)
        for name in ("execute_local_transaction", "check_local_transaction"):
            if not callable(getattr(listener, name, None)):
                raise ConfigurationError(f"listener: it has no method {name}")
        self._listener = listener
        self._checking = asyncio.Semaphore(CHECKS_MAX)

    async def send_in_transaction(
        self, message: Message, argument: object = None, *, timeout: float | None = None
    ) -> TransactionResult:
        """Store a message as a half, run its local transaction, report the outcome to the broker.

        Raises as `send` if the half could not be stored, or its place is unknown: the transaction is then not run.
        """
        sender = self._running()
        check_message(message)
        if message.is_timed:
            raise InvalidMessage("message", "a message in a transaction cannot be delayed")
        result = await self._send_half(sender, message, timeout)
        position = _position(result)
        # Queried before the transaction runs: a later error would suggest that it did not run.
        address = sender.instance.broker_address(result.queue.broker)
        state, error = TransactionState.ROLLBACK_MESSAGE, None
        if result.status is SendStatus.SEND_OK:
            state, error = await self._run(self._listener.execute_local_transaction, message, argument)
        else:  # with full durability or not at all, as RocketMQ's client does
            log.warning("the half of %s was stored only with %s: rolled back", message, result.status)
        header = EndTransactionHeader(
            topic=self._preparation.topic(message.topic),
            producer_group=self._wrapped_group,
            tran_state_table_offset=result.queue_offset,
            commit_log_offset=position,
            commit_or_rollback=_TYPE[state],
            from_transaction_check=False,
            msg_id=result.message_id,
            transaction_id=result.transaction_id or result.message_id,
        )
        await self._send_decision(sender, address, header)
        self._trace_end(message, result, address, state)
        return TransactionResult(result, state, error)

    def handle_push(self, command: Command, address: str) -> PushAnswer:
        """Answer a broker's question about a half (39)."""
        return self._check(command, address)

    async def _send_half(self, sender: Sender, message: Message, timeout: float | None) -> SendResult:
        extra = {TRANSACTION_PREPARED: "true", PRODUCER_GROUP: self._wrapped_group}
        born_ms = wall_ms(self._machine)
        prepared = self._preparation.prepare(message, born_ms, extra)
        prepared = prepared._replace(sys_flag=prepared.sys_flag | SYS_TRANSACTION_PREPARED)
        future: asyncio.Future[SendResult] = sender.loop.create_future()
        send = Send(sender, message, prepared, future, sender.loop.time() + self._seconds(timeout), born_ms)
        send.kind = "half"
        sender.begin(send)
        return await future

    async def _run(
        self, function: Callable[..., StateAnswer], *arguments: Any
    ) -> tuple[TransactionState, Exception | None]:
        """Return the listener's answer; UNKNOW for an exception or an invalid answer."""
        try:
            if inspect.iscoroutinefunction(function):
                said: object = await function(*arguments)
            else:
                said = await asyncio.to_thread(function, *arguments)
                if inspect.isawaitable(said):
                    said = await cast("Awaitable[object]", said)
        except Exception as error:
            log.exception("the transaction listener failed: the state is unknown, the broker will ask again")
            return TransactionState.UNKNOW, error
        if isinstance(said, TransactionState):
            return said, None
        words = f"the transaction listener returned {said!r}, which is not a TransactionState"
        log.error("%s: the state is unknown, the broker will ask again", words)
        return TransactionState.UNKNOW, TypeError(words)

    async def _check(self, command: Command, address: str) -> None:
        sender = self._sender
        if sender is None:
            return
        asked = command.read(CheckTransactionHeader)
        broker = sender.instance.routing.broker_of(address) or ""
        message = ReceivedMessage(checked_record(command), broker, namespace=self.client_settings.namespace)
        async with self._checking:
            state, _ = await self._run(self._listener.check_local_transaction, message)
        header = EndTransactionHeader(
            topic=asked.topic or message.stored_topic,
            producer_group=self._wrapped_group,
            tran_state_table_offset=asked.tran_state_table_offset,
            commit_log_offset=asked.commit_log_offset,
            commit_or_rollback=_TYPE[state],
            from_transaction_check=True,
            msg_id=message.message_id,
            transaction_id=asked.transaction_id or message.transaction_id,
        )
        await self._send_decision(sender, address, header)

    async def _send_decision(self, sender: Sender, address: str, header: EndTransactionHeader) -> None:
        """Send the decision (37), one-way: if it is lost, the broker asks."""
        try:
            await sender.instance.store_at(address).tell(RequestCode.END_TRANSACTION, header)
        except (LinkError, GantryError) as error:
            log.warning(
                "the decision about %s did not reach %s, which will ask: %s", header.msg_id, address, error
            )

    def _trace_end(self, message: Message, result: SendResult, address: str, state: TransactionState) -> None:
        if self._tracer is None or result.region is None or not result.trace_on:
            return
        context = EndContext(
            self.group,
            message,
            address,
            result.transaction_id or "",
            state.value,
            False,
            wall_ms(self._machine),
        )
        self._tracer.add(ended_record(context, result.region))


def _position(result: SendResult) -> int:
    """Return the position of the half, which a decision must name."""
    try:
        return parse_offset_message_id(result.offset_message_id)[2]
    except MalformedMessageId as error:
        raise sdk_error(error, f"sending a half to {result.queue.topic}") from error
