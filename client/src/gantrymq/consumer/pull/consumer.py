"""PullConsumer: messages by queue and offset. Keeps no offset: the user chooses the next one."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, cast

from gantry_link.clients.store import StoreClient
from gantry_link.errors import BrokerRefused, LinkError
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import WireError
from gantry_wire.headers.messages import PullHeader
from gantry_wire.limits import PULL_MESSAGES_MAX
from gantrymq.connection.instance import ClientInstance
from gantrymq.connection.members import check_group_name
from gantrymq.consumer.retrying.returning import Returning
from gantrymq.consumer.shared.process_queue import ProcessQueue
from gantrymq.consumer.shared.pulling import HOLD_MARGIN_SECONDS, SUBSCRIPTION, SUSPEND, read_messages
from gantrymq.consumer.shared.settings import HOLD_SECONDS_MAX, check_whole
from gantrymq.consumer.subscriptions.making import make_subscription
from gantrymq.consumer.subscriptions.naming import shown_queues, time_ms, wire_queue
from gantrymq.errors import ConfigurationError, NotRunning, sdk_error
from gantrymq.formats.namespaces import wrap
from gantrymq.machine import wall_ms
from gantrymq.message import MessageQueue, ReceivedMessage
from gantrymq.settings import ClientOptions, check_number, client_settings, make_settings, split_options

AnswerT = TypeVar("AnswerT")


class PullStatus(StrEnum):
    """The status of a pull, in RocketMQ's words."""

    FOUND = "FOUND"
    NO_NEW_MSG = "NO_NEW_MSG"
    """No message yet."""
    NO_MATCHED_MSG = "NO_MATCHED_MSG"
    """The filter excludes the messages here; continue at `next_offset`."""
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"
    """The queue has no such offset; `next_offset` is the nearest one."""


_STATUS = {
    int(ResponseCode.SUCCESS): PullStatus.FOUND,
    int(ResponseCode.PULL_NOT_FOUND): PullStatus.NO_NEW_MSG,
    int(ResponseCode.PULL_RETRY_IMMEDIATELY): PullStatus.NO_MATCHED_MSG,
    int(ResponseCode.PULL_OFFSET_MOVED): PullStatus.OFFSET_ILLEGAL,
}


@dataclass(frozen=True, slots=True)
class PullResult:
    """The answer to a pull."""

    status: PullStatus
    messages: list[ReceivedMessage]
    next_offset: int
    """The offset at which to continue."""
    min_offset: int
    """The offset of the oldest message of the queue."""
    max_offset: int
    """The offset that the next new message will have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _NoOptions:
    """A PullConsumer has only the options of every client."""


class PullConsumer:
    """Reads queues from any offset. It does not share queues with a group: give it its own group."""

    def __init__(self, group: str, **options: Unpack[ClientOptions]) -> None:
        check_group_name(group)
        of_client, others = split_options(cast("dict[str, Any]", options))
        make_settings(_NoOptions, others)
        self.group = group
        self._settings = client_settings(of_client)
        self._wire_group = wrap(self._settings.namespace, group)
        self._instance: ClientInstance | None = None
        self._is_wanted = False
        """Whether `start` was called after `close`."""

    async def start(self) -> None:
        """Acquire the client; it connects on first use."""
        self._is_wanted = True
        if self._instance is not None:
            return
        instance = await ClientInstance.acquire(self._settings)
        if self._instance is not None:  # a concurrent start was faster
            await instance.release()
        elif not self._is_wanted:
            await instance.release()
            raise NotRunning(f"group {self.group}: the consumer was closed while it started")
        else:
            self._instance = instance

    async def close(self) -> None:
        """Release the connections."""
        self._is_wanted = False
        is_here = self._instance is not None and self._instance.is_here(f"the consumer of group {self.group}")
        instance, self._instance = self._instance, None
        if instance is not None and is_here:
            await instance.release()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await self.close()

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues of a topic; NoRoute, ConnectionFailed."""
        namespace = self._settings.namespace
        return shown_queues(namespace, await self._client().subscribe_queues(wrap(namespace, topic)))

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        max_messages: int = 32,
        tags: str = "*",
        sql: str | None = None,
        wait: float = 0.0,
    ) -> PullResult:
        """Return messages of a queue from an offset on. `wait`: how long (s) the broker may hold a pull that finds nothing.

        Raises Refused, TimedOut, ConnectionFailed, NoRoute, and ConfigurationError for an invalid argument.
        """
        check_whole("offset", offset, 0, 2**63 - 1)
        check_whole("max_messages", max_messages, 1, PULL_MESSAGES_MAX)
        check_number("wait", wait, 0, HOLD_SECONDS_MAX)
        queue = wire_queue(self._settings.namespace, queue)
        subscription = make_subscription("", queue.topic, tags, sql, wall_ms(self._settings.machine))
        header = PullHeader(
            consumer_group=self._wire_group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=max_messages,
            sys_flag=SUBSCRIPTION | (SUSPEND if wait else 0),
            suspend_timeout_millis=round(wait * 1000),
            subscription=subscription.expression,
            sub_version=subscription.version,
            expression_type=subscription.kind,
            wide=True,
        )
        answer = self._store(queue).pull(header, timeout_seconds=wait + HOLD_MARGIN_SECONDS)
        pulled = await _worded(answer, f"pulling {queue} at {offset}")
        messages = read_messages(pulled.records, queue, subscription, self._settings.namespace)
        return PullResult(
            _STATUS[pulled.code], messages, pulled.next_offset, pulled.min_offset, pulled.max_offset
        )

    async def min_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the oldest message of a queue."""
        queue = wire_queue(self._settings.namespace, queue)
        return await _worded(
            self._store(queue).min_offset(queue.topic, queue.queue_id), f"querying the start of {queue}"
        )

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset that the next message of a queue will have."""
        queue = wire_queue(self._settings.namespace, queue)
        return await _worded(
            self._store(queue).max_offset(queue.topic, queue.queue_id), f"querying the end of {queue}"
        )

    async def offset_at(self, queue: MessageQueue, when: datetime) -> int:
        """Return the offset of the first message stored at a time or later."""
        queue, begin_ms = wire_queue(self._settings.namespace, queue), time_ms(when)
        asked = self._store(queue).search_offset(queue.topic, queue.queue_id, begin_ms)
        return await _worded(asked, f"searching {queue} by time")

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the group's offset of a queue, None if it has none."""
        queue = wire_queue(self._settings.namespace, queue)
        asked = self._store(queue).consumer_offset(self._wire_group, queue.topic, queue.queue_id)
        return await _worded(asked, f"querying the offset of {queue}")

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Save the group's offset of a queue at the broker: that of the next message to read."""
        check_whole("offset", offset, 0, 2**63 - 1)
        queue = wire_queue(self._settings.namespace, queue)
        asked = self._store(queue).commit_offset(self._wire_group, queue.topic, queue.queue_id, offset)
        await _worded(asked, f"committing {offset} for {queue}")

    async def send_back(self, message: ReceivedMessage, *, delay_level: int = 0, reason: str = "") -> bool:
        """Deliver a message to the group again, by its retry topic; -1 makes it a dead letter. False: no broker accepted it."""
        check_whole("delay_level", delay_level, -1, 18)
        if not isinstance(message, ReceivedMessage):  # pyright: ignore[reportUnnecessaryIsInstance] - what users pass
            raise ConfigurationError(f"message: must be a ReceivedMessage, not {type(message).__name__}")
        returning = Returning(self._client(), self._wire_group, -1, _nobody, _nobody, self._settings.machine)
        return await returning.send_back(message, delay_level, reason)

    def _client(self) -> ClientInstance:
        if self._instance is None:
            raise NotRunning(f"group {self.group}: start the consumer first, or use it with `async with`")
        return self._instance

    def _store(self, queue: MessageQueue) -> StoreClient:
        instance = self._client()
        return instance.store_at(instance.broker_address(queue.broker, slave_ok=True))


async def _worded(asked: Awaitable[AnswerT], doing: str) -> AnswerT:
    try:
        return await asked
    except (BrokerRefused, LinkError, WireError) as error:
        raise sdk_error(error, doing) from error


def _nobody(queue: ProcessQueue, messages: list[ReceivedMessage]) -> None:
    """Ignore the messages: no queue is assigned."""
