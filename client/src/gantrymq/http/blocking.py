"""The HTTP clients without asyncio: each method waits for its asyncio namesake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from gantrymq.blocking.client import BlockingClient
from gantrymq.blocking.loop import loop_thread
from gantrymq.http import consumer as consumers
from gantrymq.http import producer as producers
from gantrymq.http.leased import LeasedMessage
from gantrymq.http.settings import HttpOptions
from gantrymq.message import Message, MessageQueue, SendResult
from gantrymq.producer.batching.batches import BatchIncomplete


class Producer(BlockingClient[producers.Producer]):
    """`gantrymq.http.Producer` for programs without asyncio: use it in `with`, from any number of threads."""

    def __init__(self, *, idempotent: bool = True, **options: Unpack[HttpOptions]) -> None:
        super().__init__(producers.Producer(idempotent=idempotent, **options))

    def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> SendResult:
        """As `gantrymq.http.Producer.send`."""
        return loop_thread.run(
            self._inner.send(message, queue=queue, idempotency_key=idempotency_key, timeout=timeout)
        )

    def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        idempotency_keys: Sequence[str] | None = None,
        timeout: float | None = None,
    ) -> list[SendResult]:
        """As `gantrymq.http.Producer.send_batch`."""
        return loop_thread.run(
            self._inner.send_batch(messages, queue=queue, idempotency_keys=idempotency_keys, timeout=timeout)
        )

    def resume(self, incomplete: BatchIncomplete, *, timeout: float | None = None) -> list[SendResult]:
        """As `gantrymq.http.Producer.resume`."""
        return loop_thread.run(self._inner.resume(incomplete, timeout=timeout))

    def queues(self, topic: str) -> list[MessageQueue]:
        """As `gantrymq.http.Producer.queues`."""
        return loop_thread.run(self._inner.queues(topic))

    def cancel(self, result: SendResult | str) -> str:
        """As `gantrymq.http.Producer.cancel`."""
        return loop_thread.run(self._inner.cancel(result))


class Consumer(BlockingClient[consumers.Consumer]):
    """`gantrymq.http.Consumer` for programs without asyncio: use it in `with`, from any number of threads."""

    def __init__(
        self,
        group: str,
        topic: str,
        expression: str | None = None,
        *,
        sql: bool = False,
        change_filter: bool = False,
        **options: Unpack[HttpOptions],
    ) -> None:
        inner = consumers.Consumer(group, topic, expression, sql=sql, change_filter=change_filter, **options)
        super().__init__(inner)

    def receive(self, max_messages: int = 16, *, wait: int = 10, invisible: int = 30) -> list[LeasedMessage]:
        """As `gantrymq.http.Consumer.receive`."""
        return loop_thread.run(self._inner.receive(max_messages, wait=wait, invisible=invisible))

    def ack(self, *messages: LeasedMessage) -> None:
        """As `gantrymq.http.Consumer.ack`."""
        loop_thread.run(self._inner.ack(*messages))

    def nack(self, *messages: LeasedMessage, delay: float | None = None, reason: str | None = None) -> None:
        """As `gantrymq.http.Consumer.nack`."""
        loop_thread.run(self._inner.nack(*messages, delay=delay, reason=reason))

    def extend(self, *messages: LeasedMessage, invisible: int = 30) -> None:
        """As `gantrymq.http.Consumer.extend`."""
        loop_thread.run(self._inner.extend(*messages, invisible=invisible))
