"""Producers without asyncio: each method waits for its asyncio namesake."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Sequence
from typing import Unpack

from gantrymq.blocking.client import BlockingClient
from gantrymq.blocking.loop import loop_thread
from gantrymq.connection.replies import Reply
from gantrymq.hooks import SendHook
from gantrymq.message import Message, MessageQueue, SendResult
from gantrymq.producer import producer as asynchronous
from gantrymq.producer import transactions
from gantrymq.producer.batching.batches import BatchIncomplete
from gantrymq.producer.selectors import Selector
from gantrymq.producer.settings import ProducerOptions
from gantrymq.producer.transactions import TransactionListener, TransactionResult


class Producer(BlockingClient[asynchronous.Producer]):
    """`gantrymq.Producer` for programs without asyncio: use it in `with`, from any number of threads."""

    def __init__(self, group: str, **options: Unpack[ProducerOptions]) -> None:
        super().__init__(asynchronous.Producer(group, **options))

    def add_hook(self, hook: SendHook) -> None:
        """As `gantrymq.Producer.add_hook`; the hook runs in the loop's thread."""
        self._inner.add_hook(hook)

    def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        argument: object = None,
        timeout: float | None = None,
    ) -> SendResult:
        """As `gantrymq.Producer.send`."""
        return loop_thread.run(
            self._inner.send(message, queue=queue, selector=selector, argument=argument, timeout=timeout)
        )

    def send_soon(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        argument: object = None,
        timeout: float | None = None,
    ) -> concurrent.futures.Future[SendResult]:
        """As `gantrymq.Producer.send_soon`: any thread can wait for the future."""
        return loop_thread.begin(
            self._inner.send(message, queue=queue, selector=selector, argument=argument, timeout=timeout)
        )

    def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        argument: object = None,
    ) -> None:
        """As `gantrymq.Producer.send_oneway`."""
        loop_thread.run(self._inner.send_oneway(message, queue=queue, selector=selector, argument=argument))

    def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        timeout: float | None = None,
    ) -> list[SendResult]:
        """As `gantrymq.Producer.send_batch`."""
        return loop_thread.run(self._inner.send_batch(messages, queue=queue, timeout=timeout))

    def resume(self, incomplete: BatchIncomplete, *, timeout: float | None = None) -> list[SendResult]:
        """As `gantrymq.Producer.resume`."""
        return loop_thread.run(self._inner.resume(incomplete, timeout=timeout))

    def queues(self, topic: str) -> list[MessageQueue]:
        """As `gantrymq.Producer.queues`."""
        return loop_thread.run(self._inner.queues(topic))

    def cancel(self, result: SendResult | str) -> str:
        """As `gantrymq.Producer.cancel`."""
        return loop_thread.run(self._inner.cancel(result))

    def request(
        self,
        message: Message,
        *,
        timeout: float | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        argument: object = None,
    ) -> Reply:
        """As `gantrymq.Producer.request`."""
        return loop_thread.run(
            self._inner.request(message, timeout=timeout, queue=queue, selector=selector, argument=argument)
        )


class TransactionProducer(Producer):
    """`gantrymq.TransactionProducer` for programs without asyncio; plain methods of the listener run in threads."""

    def __init__(self, group: str, listener: TransactionListener, **options: Unpack[ProducerOptions]) -> None:
        self._transactions = transactions.TransactionProducer(group, listener, **options)
        BlockingClient.__init__(self, self._transactions)

    def send_in_transaction(
        self, message: Message, argument: object = None, *, timeout: float | None = None
    ) -> TransactionResult:
        """As `gantrymq.TransactionProducer.send_in_transaction`."""
        return loop_thread.run(self._transactions.send_in_transaction(message, argument, timeout=timeout))
