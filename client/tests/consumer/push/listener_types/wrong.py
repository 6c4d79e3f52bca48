"""Listeners that a type checker must refuse: on each line marked so, and on no other."""

import gantrymq
import gantrymq.blocking

consumer = gantrymq.PushConsumer("g")
bodies: list[bytes] = []


@consumer.listener  # wrong: text is no message
async def of_text(message: str) -> None: ...


@consumer.listener  # wrong: nor are bodies
def of_bodies(messages: list[bytes]) -> None: ...


@consumer.listener  # wrong: it takes nothing
async def of_nothing() -> None: ...


@consumer.listener  # wrong: it takes too much
async def of_three(
    message: gantrymq.ReceivedMessage, context: gantrymq.ConsumeContext, more: int
) -> None: ...


@consumer.listener  # wrong: the second is a ConsumeContext
async def of_a_number(message: gantrymq.ReceivedMessage, attempts: int) -> None: ...


@consumer.listener  # wrong: True is no result
async def returns_true(message: gantrymq.ReceivedMessage) -> bool: ...


@consumer.listener  # wrong: nor is text
def returns_text(messages: list[gantrymq.ReceivedMessage]) -> str: ...


async def one(message: gantrymq.ReceivedMessage) -> None: ...


async def many(messages: list[gantrymq.ReceivedMessage]) -> None: ...


consumer.on_messages(one)  # wrong: it gets a list
consumer.on_message(many)  # wrong: it gets one message
consumer.on_message(lambda message: bodies.append(message.bodies))  # wrong: no such attribute
consumer.on_messages(lambda messages: bodies.append(messages.body))  # wrong: a list has no body
gantrymq.blocking.PushConsumer("g").on_messages(one)  # wrong: the blocking face is typed alike
