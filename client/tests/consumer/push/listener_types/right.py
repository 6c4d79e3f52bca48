"""Listeners that a type checker must accept, as in docs/sdk.md."""

from collections.abc import Sequence

import gantry
import gantry.blocking

consumer = gantry.PushConsumer("g")


@consumer.listener
async def one(message: gantry.ReceivedMessage) -> None: ...


@consumer.listener
async def one_with_context(
    message: gantry.ReceivedMessage, context: gantry.ConsumeContext
) -> gantry.ConsumeResult:
    return gantry.ConsumeResult.SUCCESS


@consumer.listener
def one_in_a_thread(message: gantry.ReceivedMessage) -> gantry.ConsumeResult | None: ...


@consumer.listener
async def many(messages: list[gantry.ReceivedMessage]) -> None: ...


@consumer.listener
async def many_with_context(
    messages: list[gantry.ReceivedMessage], context: gantry.ConsumeContext
) -> gantry.ConsumeResult | None: ...


@consumer.listener
def many_in_a_thread(messages: Sequence[gantry.ReceivedMessage]) -> gantry.ConsumeResult:
    return gantry.ConsumeResult.SUCCESS


class Listener:
    async def __call__(self, messages: list[gantry.ReceivedMessage]) -> None: ...

    def take(self, message: gantry.ReceivedMessage) -> None: ...


consumer.on_messages(Listener())
consumer.on_message(Listener().take)
seen: list[gantry.ReceivedMessage] = []
bodies: list[bytes] = []
consumer.on_messages(lambda messages: seen.extend(messages), quick=True)  # noqa: PLW0108 - its parameter has a type
consumer.on_message(lambda message: bodies.append(message.body), quick=True)
consumer.on_messages(seen.extend, quick=True)
consumer.on_message(seen.append, quick=True)

blocking = gantry.blocking.PushConsumer("g")


@blocking.listener
def one_of_blocking(message: gantry.ReceivedMessage) -> None: ...


blocking.on_messages(many)
blocking.on_message(one)
