"""Listeners that a type checker must accept, as in docs/sdk.md."""

from collections.abc import Sequence

import gantrymq
import gantrymq.blocking

consumer = gantrymq.PushConsumer("g")


@consumer.listener
async def one(message: gantrymq.ReceivedMessage) -> None: ...


@consumer.listener
async def one_with_context(
    message: gantrymq.ReceivedMessage, context: gantrymq.ConsumeContext
) -> gantrymq.ConsumeResult:
    return gantrymq.ConsumeResult.SUCCESS


@consumer.listener
def one_in_a_thread(message: gantrymq.ReceivedMessage) -> gantrymq.ConsumeResult | None: ...


@consumer.listener
async def many(messages: list[gantrymq.ReceivedMessage]) -> None: ...


@consumer.listener
async def many_with_context(
    messages: list[gantrymq.ReceivedMessage], context: gantrymq.ConsumeContext
) -> gantrymq.ConsumeResult | None: ...


@consumer.listener
def many_in_a_thread(messages: Sequence[gantrymq.ReceivedMessage]) -> gantrymq.ConsumeResult:
    return gantrymq.ConsumeResult.SUCCESS


class Listener:
    async def __call__(self, messages: list[gantrymq.ReceivedMessage]) -> None: ...

    def take(self, message: gantrymq.ReceivedMessage) -> None: ...


consumer.on_messages(Listener())
consumer.on_message(Listener().take)
seen: list[gantrymq.ReceivedMessage] = []
bodies: list[bytes] = []
consumer.on_messages(lambda messages: seen.extend(messages), quick=True)  # noqa: PLW0108 - its parameter has a type
consumer.on_message(lambda message: bodies.append(message.body), quick=True)
consumer.on_messages(seen.extend, quick=True)
consumer.on_message(seen.append, quick=True)

blocking = gantrymq.blocking.PushConsumer("g")


@blocking.listener
def one_of_blocking(message: gantrymq.ReceivedMessage) -> None: ...


blocking.on_messages(many)
blocking.on_message(one)
