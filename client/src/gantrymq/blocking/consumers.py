"""Consumers without asyncio: each method waits for its asyncio namesake.

Listeners here are plain functions, called in threads. A coroutine function works too; it runs in the loop's thread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Unpack

from gantrymq.blocking.client import BlockingClient
from gantrymq.blocking.loop import loop_thread
from gantrymq.consumer.lite import consumer as lite
from gantrymq.consumer.lite.settings import LiteOptions
from gantrymq.consumer.pull import consumer as pull
from gantrymq.consumer.pull.consumer import PullResult
from gantrymq.consumer.push import consumer as push
from gantrymq.consumer.push.consumer import ConsumerState
from gantrymq.consumer.push.listeners import ListenerT, MessageListener, OneMessageListener
from gantrymq.consumer.push.signals import caught_signals_of_thread
from gantrymq.consumer.shared.settings import ConsumerOptions
from gantrymq.consumer.shared.statistics import Rates
from gantrymq.hooks import ConsumeHook, MessageFilter
from gantrymq.message import MessageQueue, ReceivedMessage
from gantrymq.settings import ClientOptions


class PushConsumer(BlockingClient[push.PushConsumer]):
    """`gantrymq.PushConsumer` for programs without asyncio."""

    def __init__(self, group: str, **options: Unpack[ConsumerOptions]) -> None:
        super().__init__(push.PushConsumer(group, **options))

    def subscribe(self, topic: str, expression: str = "*", *, sql: str | None = None) -> None:
        """As `gantrymq.PushConsumer.subscribe`."""
        loop_thread.call(lambda: self._inner.subscribe(topic, expression, sql=sql))

    def unsubscribe(self, topic: str) -> None:
        """As `gantrymq.PushConsumer.unsubscribe`."""
        loop_thread.call(lambda: self._inner.unsubscribe(topic))

    def on_messages(self, listener: MessageListener, *, quick: bool = False) -> None:
        """As `gantrymq.PushConsumer.on_messages`."""
        self._inner.on_messages(listener, quick=quick)

    def on_message(self, listener: OneMessageListener, *, quick: bool = False) -> None:
        """As `gantrymq.PushConsumer.on_message`."""
        self._inner.on_message(listener, quick=quick)

    def listener(self, function: ListenerT) -> ListenerT:
        """As `gantrymq.PushConsumer.listener`."""
        return self._inner.listener(function)

    def add_hook(self, hook: ConsumeHook) -> None:
        """As `gantrymq.PushConsumer.add_hook`; the hook runs in the loop's thread."""
        self._inner.add_hook(hook)

    def add_filter(self, message_filter: MessageFilter) -> None:
        """As `gantrymq.PushConsumer.add_filter`; the filter runs in the loop's thread."""
        self._inner.add_filter(message_filter)

    def _begin_to_close(self) -> None:
        loop_thread.begin(self._inner.close())

    def run_until_stopped(self) -> None:
        """As `gantrymq.PushConsumer.run_until_stopped`."""
        with caught_signals_of_thread(self._begin_to_close) as caught:
            loop_thread.run(self._inner.run_until_stopped())
        if caught:
            self.close()  # returns when the close that the signal started is complete

    def pause(self) -> None:
        """As `gantrymq.PushConsumer.pause`."""
        loop_thread.call(self._inner.pause)

    def resume(self) -> None:
        """As `gantrymq.PushConsumer.resume`."""
        loop_thread.call(self._inner.resume)

    def rates(self) -> dict[str, Rates]:
        """As `gantrymq.PushConsumer.rates`."""
        return loop_thread.call(self._inner.rates)

    @property
    def state(self) -> ConsumerState:
        """As `gantrymq.PushConsumer.state`."""
        return self._inner.state

    @property
    def client_id(self) -> str:
        """As `gantrymq.PushConsumer.client_id`."""
        return self._inner.client_id

    @property
    def queues(self) -> list[MessageQueue]:
        """As `gantrymq.PushConsumer.queues`."""
        return loop_thread.call(lambda: self._inner.queues)


class PullConsumer(BlockingClient[pull.PullConsumer]):
    """`gantrymq.PullConsumer` for programs without asyncio."""

    def __init__(self, group: str, **options: Unpack[ClientOptions]) -> None:
        super().__init__(pull.PullConsumer(group, **options))

    def queues(self, topic: str) -> list[MessageQueue]:
        """As `gantrymq.PullConsumer.queues`."""
        return loop_thread.run(self._inner.queues(topic))

    def pull(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        max_messages: int = 32,
        tags: str = "*",
        sql: str | None = None,
        wait: float = 0.0,
    ) -> PullResult:
        """As `gantrymq.PullConsumer.pull`."""
        return loop_thread.run(
            self._inner.pull(queue, offset, max_messages=max_messages, tags=tags, sql=sql, wait=wait)
        )

    def min_offset(self, queue: MessageQueue) -> int:
        """As `gantrymq.PullConsumer.min_offset`."""
        return loop_thread.run(self._inner.min_offset(queue))

    def max_offset(self, queue: MessageQueue) -> int:
        """As `gantrymq.PullConsumer.max_offset`."""
        return loop_thread.run(self._inner.max_offset(queue))

    def offset_at(self, queue: MessageQueue, when: datetime) -> int:
        """As `gantrymq.PullConsumer.offset_at`."""
        return loop_thread.run(self._inner.offset_at(queue, when))

    def committed(self, queue: MessageQueue) -> int | None:
        """As `gantrymq.PullConsumer.committed`."""
        return loop_thread.run(self._inner.committed(queue))

    def commit(self, queue: MessageQueue, offset: int) -> None:
        """As `gantrymq.PullConsumer.commit`."""
        loop_thread.run(self._inner.commit(queue, offset))

    def send_back(self, message: ReceivedMessage, *, delay_level: int = 0, reason: str = "") -> bool:
        """As `gantrymq.PullConsumer.send_back`."""
        return loop_thread.run(self._inner.send_back(message, delay_level=delay_level, reason=reason))


class LitePullConsumer(BlockingClient[lite.LitePullConsumer]):
    """`gantrymq.LitePullConsumer` for programs without asyncio. `for message in consumer.poll(): …`."""

    def __init__(self, group: str, **options: Unpack[LiteOptions]) -> None:
        super().__init__(lite.LitePullConsumer(group, **options))

    def subscribe(self, topic: str, expression: str = "*", *, sql: str | None = None) -> None:
        """As `gantrymq.LitePullConsumer.subscribe`."""
        loop_thread.call(lambda: self._inner.subscribe(topic, expression, sql=sql))

    def assign(
        self, queues: Iterable[MessageQueue], expression: str = "*", *, sql: str | None = None
    ) -> None:
        """As `gantrymq.LitePullConsumer.assign`."""
        loop_thread.run(self._inner.assign(queues, expression, sql=sql))

    def queues(self, topic: str) -> list[MessageQueue]:
        """As `gantrymq.LitePullConsumer.queues`."""
        return loop_thread.run(self._inner.queues(topic))

    @property
    def assignment(self) -> list[MessageQueue]:
        """As `gantrymq.LitePullConsumer.assignment`."""
        return loop_thread.call(lambda: self._inner.assignment)

    def poll(self, timeout: float = 5.0, *, max_messages: int | None = None) -> list[ReceivedMessage]:
        """As `gantrymq.LitePullConsumer.poll`."""
        return loop_thread.run(self._inner.poll(timeout, max_messages=max_messages))

    def commit(self, queues: Collection[MessageQueue] | None = None) -> None:
        """As `gantrymq.LitePullConsumer.commit`."""
        loop_thread.run(self._inner.commit(queues))

    def position(self, queue: MessageQueue) -> int:
        """As `gantrymq.LitePullConsumer.position`."""
        return loop_thread.call(lambda: self._inner.position(queue))

    def committed(self, queue: MessageQueue) -> int | None:
        """As `gantrymq.LitePullConsumer.committed`."""
        return loop_thread.run(self._inner.committed(queue))

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """As `gantrymq.LitePullConsumer.seek`."""
        loop_thread.call(lambda: self._inner.seek(queue, offset))

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """As `gantrymq.LitePullConsumer.seek_to_begin`."""
        loop_thread.run(self._inner.seek_to_begin(queue))

    def seek_to_end(self, queue: MessageQueue) -> None:
        """As `gantrymq.LitePullConsumer.seek_to_end`."""
        loop_thread.run(self._inner.seek_to_end(queue))

    def offset_at(self, queue: MessageQueue, when: datetime) -> int:
        """As `gantrymq.LitePullConsumer.offset_at`."""
        return loop_thread.run(self._inner.offset_at(queue, when))

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """As `gantrymq.LitePullConsumer.pause`."""
        loop_thread.call(lambda: self._inner.pause(queues))

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """As `gantrymq.LitePullConsumer.resume`."""
        loop_thread.call(lambda: self._inner.resume(queues))
