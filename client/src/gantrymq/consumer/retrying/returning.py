"""Returns failed messages: to the broker (36), else as new messages to the retry topic, else once more to this consumer after 5 s.

One task does all of it, so nothing waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from gantry_link.clients.store import StoreClient
from gantry_link.errors import BrokerRefused, LinkError
from gantry_wire.codes import RequestCode
from gantry_wire.errors import WireError
from gantry_wire.headers.messages import ConsumerSendBackHeader, SendHeaderV2
from gantry_wire.limits import TOPIC_QUEUES_DEFAULT
from gantry_wire.messages.properties import (
    DELAY,
    MAX_RECONSUME_TIMES,
    ORIGIN_MESSAGE_ID,
    RECONSUME_TIME,
    RETRY_TOPIC,
    TRANSACTION_PREPARED,
    format_properties,
)
from gantry_wire.names import AUTO_CREATE_TOPIC, retry_topic
from gantrymq.consumer.retrying.failures import FIRST_RETRY_LEVEL, named
from gantrymq.consumer.retrying.outcomes import ATTEMPTS_MAX
from gantrymq.consumer.shared.process_queue import ProcessQueue
from gantrymq.errors import GantryError
from gantrymq.machine import Machine, wall_ms
from gantrymq.message import MessageQueue, ReceivedMessage

log: logging.Logger = logging.getLogger("gantrymq")

LOCAL_RETRY_SECONDS = 5.0
SEND_BACK_SECONDS = 5.0
TOGETHER_MAX = 64
"""The most messages being returned at the same time."""
REASON_CHARS_MAX = 500
_KEPT_FLAGS = 0x703
"""The kept bits of the system flag: compression, several tags. Hosts and transactions are those of the new message."""


class Brokers(Protocol):
    """The client, as seen from here."""

    def store(self, broker: str) -> StoreClient:
        """Return calls to a broker's master."""
        ...

    async def publish_queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues for messages of a topic."""
        ...


@dataclass(slots=True)
class Failed:
    """Messages of one call to deliver again."""

    queue: ProcessQueue
    messages: Sequence[ReceivedMessage]
    delay_level: int
    reason: str


class Returning:
    """Sends failed messages back. `gone` gets those the broker has now, `again` those to consume here once more."""

    def __init__(
        self,
        brokers: Brokers,
        group: str,
        attempts_max: int,
        gone: Callable[[ProcessQueue, list[ReceivedMessage]], None],
        again: Callable[[ProcessQueue, list[ReceivedMessage]], None],
        machine: Machine,
    ) -> None:
        """`group` is the name in the cluster; `attempts_max` is sent to brokers, below 0 for the group's configuration."""
        self._machine = machine
        self._brokers = brokers
        self._group = group
        self._attempts_max = attempts_max
        self._gone = gone
        self._again = again
        self._waiting: deque[Failed] = deque()
        self._wanted = asyncio.Event()
        self._busy = False
        self._later: set[asyncio.TimerHandle] = set()

    @property
    def is_busy(self) -> bool:
        """Whether messages are still to be sent back."""
        return self._busy or bool(self._waiting)

    def put(self, failed: Failed) -> None:
        """Queue messages to send back."""
        self._waiting.append(failed)
        self._wanted.set()

    async def run(self) -> None:
        """Send queued messages back until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            while self._waiting:
                self._busy = True
                failed = self._waiting.popleft()
                try:
                    await self._return(failed)
                except Exception:
                    log.exception("a fault of the SDK: group %s could not send messages back", self._group)
                    # Otherwise their queue would never get past them.
                    self._keep(failed.queue, list(failed.messages))
                finally:
                    self._busy = False

    def close(self) -> None:
        """Drop messages that wait to be consumed here again: other members get the queues."""
        for timer in self._later:
            timer.cancel()
        self._later.clear()

    async def send_back(self, message: ReceivedMessage, delay_level: int, reason: str = "") -> bool:
        """Give a message back; False if neither way worked."""
        try:
            await self._ask_back(message, delay_level, reason)
        except (BrokerRefused, LinkError, GantryError) as error:
            log.warning(
                "group %s: the broker did not take back %s (%s); it is sent to the retry topic",
                self._group,
                named(message),
                error,
            )
        else:
            return True
        try:
            await self._send_copy(message, delay_level)
        except (BrokerRefused, LinkError, GantryError, WireError) as error:
            log.warning(
                "group %s: %s cannot be sent to the retry topic either: %s",
                self._group,
                named(message),
                error,
            )
            return False
        return True

    async def _return(self, failed: Failed) -> None:
        kept: list[ReceivedMessage] = []
        for at in range(0, len(failed.messages), TOGETHER_MAX):
            part = failed.messages[at : at + TOGETHER_MAX]
            results = await asyncio.gather(
                *[self.send_back(message, failed.delay_level, failed.reason) for message in part]
            )
            gone = [message for message, is_gone in zip(part, results, strict=True) if is_gone]
            kept += [message for message, is_gone in zip(part, results, strict=True) if not is_gone]
            if gone:
                self._gone(failed.queue, gone)
        if kept:
            self._keep(failed.queue, kept)

    def _keep(self, queue: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        for message in messages:
            message.reconsume_times += 1
        log.warning(
            "group %s: %d messages of %s are consumed again here in %g s",
            self._group, len(messages), queue.queue, LOCAL_RETRY_SECONDS,
        )  # fmt: skip

        def due() -> None:
            self._later.discard(timer)
            self._again(queue, messages)

        timer = asyncio.get_running_loop().call_later(LOCAL_RETRY_SECONDS, due)
        self._later.add(timer)

    async def _ask_back(self, message: ReceivedMessage, delay_level: int, reason: str) -> None:
        header = ConsumerSendBackHeader(
            offset=message.position,
            group=self._group,
            delay_level=delay_level,
            origin_msg_id=message.message_id,
            origin_topic=message.stored_topic,
            max_reconsume_times=self._attempts_max if self._attempts_max >= 0 else None,
            reason=_as_text(reason[:REASON_CHARS_MAX]) or None,
        )
        store = self._brokers.store(message.broker)
        await store.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header, timeout_seconds=SEND_BACK_SECONDS)

    async def _send_copy(self, message: ReceivedMessage, delay_level: int) -> None:
        """Send a copy as the broker would have made it (DefaultMQPushConsumerImpl.sendMessageBack)."""
        topic = retry_topic(self._group)
        queues = await self._brokers.publish_queues(topic)
        queue = queues[message.queue_offset % len(queues)]
        attempts = message.reconsume_times + 1
        properties = dict(message.properties)
        properties.pop(TRANSACTION_PREPARED, None)
        properties.setdefault(RETRY_TOPIC, message.stored_topic)
        properties.setdefault(ORIGIN_MESSAGE_ID, message.offset_message_id)
        attempts_max = self._attempts_max if self._attempts_max >= 0 else ATTEMPTS_MAX
        if delay_level < 0:
            attempts = attempts_max + 1  # beyond the last attempt: the broker makes it a dead letter
        properties[RECONSUME_TIME] = str(attempts)
        properties[MAX_RECONSUME_TIMES] = str(attempts_max)
        properties[DELAY] = str(
            delay_level if delay_level > 0 else FIRST_RETRY_LEVEL + message.reconsume_times
        )
        header = SendHeaderV2(
            producer_group="CLIENT_INNER_PRODUCER",
            topic=topic,
            default_topic=AUTO_CREATE_TOPIC,
            default_topic_queue_nums=TOPIC_QUEUES_DEFAULT,
            queue_id=queue.queue_id,
            sys_flag=message.record.sys_flag & _KEPT_FLAGS,
            born_timestamp=wall_ms(self._machine),
            flag=message.flag,
            properties=format_properties(properties).decode(),
            reconsume_times=attempts,
            max_reconsume_times=attempts_max,
            broker_name=queue.broker,
        )
        await self._brokers.store(queue.broker).send(header, message.record.body)


def _as_text(reason: str) -> str:
    """Return text that can be sent: a listener's error may contain a file name that is not UTF-8."""
    return reason.encode("utf-8", "replace").decode()
