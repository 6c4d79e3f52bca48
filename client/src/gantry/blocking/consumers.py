"""Consumers without asyncio: each method waits for its asyncio namesake.

Listeners here are plain functions, called in threads. A coroutine function works too; it runs in the loop's thread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Unpack

from gantry.blocking.client import BlockingClient
from gantry.blocking.loop import loop_thread
from gantry.consumer.lite import consumer as lite
from gantry.consumer.lite.settings import LiteOptions
from gantry.consumer.pull import consumer as pull
from gantry.consumer.pull.consumer import PullResult
from gantry.consumer.push import consumer as push
from gantry.consumer.push.consumer import ConsumerState
from gantry.consumer.push.listeners import ListenerT, MessageListener, OneMessageListener
from gantry.consumer.push.signals import caught_signals_of_thread
from gantry.consumer.shared.settings import ConsumerOptions
from gantry.consumer.shared.statistics import Rates
from gantry.hooks import ConsumeHook, MessageFilter
from gantry.message import MessageQueue, ReceivedMessage
from gantry.settings import ClientOptions


class PushConsumer(BlockingClient[push.PushConsumer]):
    """`gantry.PushConsumer` for programs without asyncio."""

    def __init__(self, group: str, **options: Unpack[ConsumerOptions]) -> None:
        super().__init__(push.PushConsumer(group, **options))

    def subscribe(self, topic: str, expression: str = "*", *, sql: str | None = None) -> None:
        """As `gantry.PushConsumer.subscribe`."""
        loop_thread.call(lambda: self._inner.subscribe(topic, expression, sql=sql))

    def unsubscribe(self, topic: str) -> None:
        """As `gantry.PushConsumer.unsubscribe`."""
        loop_thread.call(lambda: self._inner.unsubscribe(topic))

    def on_messages(self, listener: MessageListener, *, quick: bool = False) -> None:
        """As `gantry.PushConsumer.on_messages`."""
        self._inner.on_messages(listener, quick=quick)

    def on_message(self, listener: OneMessageListener, *, quick: bool = False) -> None:
        """As `gantry.PushConsumer.on_message`."""
        self._inner.on_message(listener, quick=quick)

    def listener(self, function: ListenerT) -> ListenerT:
        """As `gantry.PushConsumer.listener`."""
        return self._inner.listener(function)

    def add_hook(self, hook: ConsumeHook) -> None:
        """As `gantry.PushConsumer.add_hook`; the hook runs in the loop's thread."""
        self._inner.add_hook(hook)

    def add_filter(self, message_filter: MessageFilter) -> None:
        """As `gantry.PushConsumer.add_filter`; the filter runs in the loop's thread."""
        self._inner.add_filter(message_filter)

    def _begin_to_close(self) -> None:
        loop_thread.begin(self._inner.close())

    def run_until_stopped(self) -> None:
        """As `gantry.PushConsumer.run_until_stopped`."""
        with caught_signals_of_thread(self._begin_to_close) as caught:
            loop_thread.run(self._inner.run_until_stopped())
        if caught:
            self.close()  # returns when the close that the signal started is complete

    def pause(self) -> None:
        """As `gantry.PushConsumer.pause`."""
        loop_thread.call(self._inner.pause)

    def resume(self) -> None:
        """As `gantry.PushConsumer.resume`."""
        loop_thread.call(self._inner.resume)

    def rates(self) -> dict[str, Rates]:
        """As `gantry.PushConsumer.rates`."""
        return loop_thread.call(self._inner.rates)

    @property
    def state(self) -> ConsumerState:
        """As `gantry.PushConsumer.state`."""
        return self._inner.state

    @property
    def client_id(self) -> str:
        """As `gantry.PushConsumer.client_id`."""
        return self._inner.client_id

    @property
    def queues(self) -> list[MessageQueue]:
        """As `gantry.PushConsumer.queues`."""
        return loop_thread.call(lambda: self._inner.queues)


class PullConsumer(BlockingClient[pull.PullConsumer]):
    """`gantry.PullConsumer` for programs without asyncio."""

    def __init__(self, group: str, **options: Unpack[ClientOptions]) -> None:
        super().__init__(pull.PullConsumer(group, **options))

    def queues(self, topic: str) -> list[MessageQueue]:
        """As `gantry.PullConsumer.queues`."""
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
        """As `gantry.PullConsumer.pull`."""
        return loop_thread.run(
            self._inner.pull(queue, offset, max_messages=max_messages, tags=tags, sql=sql, wait=wait)
        )

    def min_offset(self, queue: MessageQueue) -> int:
        """As `gantry.PullConsumer.min_offset`."""
        return loop_thread.run(self._inner.min_offset(queue))

    def max_offset(self, queue: MessageQueue) -> int:
        """As `gantry.PullConsumer.max_offset`."""
        return loop_thread.run(self._inner.max_offset(queue))

    def offset_at(self, queue: MessageQueue, when: datetime) -> int:
        """As `gantry.PullConsumer.offset_at`."""
        return loop_thread.run(self._inner.offset_at(queue, when))

    def committed(self, queue: MessageQueue) -> int | None:
        """As `gantry.PullConsumer.committed`."""
        return loop_thread.run(self._inner.committed(queue))

    def commit(self, queue: MessageQueue, offset: int) -> None:
        """As `gantry.PullConsumer.commit`."""
        loop_thread.run(self._inner.commit(queue, offset))

    def send_back(self, message: ReceivedMessage, *, delay_level: int = 0, reason: str = "") -> bool:
        """As `gantry.PullConsumer.send_back`."""
        return loop_thread.run(self._inner.send_back(message, delay_level=delay_level, reason=reason))


class LitePullConsumer(BlockingClient[lite.LitePullConsumer]):
    """`gantry.LitePullConsumer` for programs without asyncio. `for message in consumer.poll(): …`."""

    def __init__(self, group: str, **options: Unpack[LiteOptions]) -> None:
        super().__init__(lite.LitePullConsumer(group, **options))

    def subscribe(self, topic: str, expression: str = "*", *, sql: str | None = None) -> None:
        """As `gantry.LitePullConsumer.subscribe`."""
        loop_thread.call(lambda: self._inner.subscribe(topic, expression, sql=sql))

    def assign(
        self, queues: Iterable[MessageQueue], expression: str = "*", *, sql: str | None = None
    ) -> None:
        """As `gantry.LitePullConsumer.assign`."""
        loop_thread.run(self._inner.assign(queues, expression, sql=sql))

    def queues(self, topic: str) -> list[MessageQueue]:
        """As `gantry.LitePullConsumer.queues`."""
        return loop_thread.run(self._inner.queues(topic))

    @property
    def assignment(self) -> list[MessageQueue]:
        """As `gantry.LitePullConsumer.assignment`."""
        return loop_thread.call(lambda: self._inner.assignment)

    def poll(self, timeout: float = 5.0, *, max_messages: int | None = None) -> list[ReceivedMessage]:
        """As `gantry.LitePullConsumer.poll`."""
        return loop_thread.run(self._inner.poll(timeout, max_messages=max_messages))

    def commit(self, queues: Collection[MessageQueue] | None = None) -> None:
        """As `gantry.LitePullConsumer.commit`."""
        loop_thread.run(self._inner.commit(queues))

    def position(self, queue: MessageQueue) -> int:
        """As `gantry.LitePullConsumer.position`."""
        return loop_thread.call(lambda: self._inner.position(queue))

    def committed(self, queue: MessageQueue) -> int | None:
        """As `gantry.LitePullConsumer.committed`."""
        return loop_thread.run(self._inner.committed(queue))

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """As `gantry.LitePullConsumer.seek`."""
        loop_thread.call(lambda: self._inner.seek(queue, offset))

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """As `gantry.LitePullConsumer.seek_to_begin`."""
        loop_thread.run(self._inner.seek_to_begin(queue))

    def seek_to_end(self, queue: MessageQueue) -> None:
        """As `gantry.LitePullConsumer.seek_to_end`."""
        loop_thread.run(self._inner.seek_to_end(queue))

    def offset_at(self, queue: MessageQueue, when: datetime) -> int:
        """As `gantry.LitePullConsumer.offset_at`."""
        return loop_thread.run(self._inner.offset_at(queue, when))

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """As `gantry.LitePullConsumer.pause`."""
        loop_thread.call(lambda: self._inner.pause(queues))

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """As `gantry.LitePullConsumer.resume`."""
        loop_thread.call(lambda: self._inner.resume(queues))
