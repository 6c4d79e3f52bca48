"""What the function of a listener says about its calls: a coroutine or not, a context, one message or many."""

from collections.abc import Sequence
from typing import Protocol

import pytest

from gantrymq import ConfigurationError, PushConsumer
from gantrymq.consumer.push.listeners import Way, examine, takes_one_message
from gantrymq.consumer.retrying.outcomes import ConsumeContext
from gantrymq.message import ReceivedMessage


def test_listeners_are_examined_before_anything_starts() -> None:
    async def coroutine(messages: list[ReceivedMessage]) -> None: ...

    def with_context(messages: list[ReceivedMessage], context: ConsumeContext) -> None: ...

    def with_own_default(messages: list[ReceivedMessage], table: str = "t") -> None: ...

    seen: list[ReceivedMessage] = []
    assert (examine(coroutine, quick=False).way, examine(seen.extend, quick=True).way) == (
        Way.COROUTINE,
        Way.LOOP,
    )
    assert examine(with_context, quick=False).wants_context
    assert not examine(with_own_default, quick=False).wants_context
    with pytest.raises(ValueError, match="quick"):
        examine(coroutine, quick=True)
    with pytest.raises(TypeError, match="takes"):
        examine(lambda: None, quick=False)
    with pytest.raises(TypeError, match="not int"):
        examine(7, quick=False)  # pyright: ignore[reportArgumentType]


def test_the_type_of_its_parameter_says_how_many_messages_a_listener_takes() -> None:
    class Imported(Protocol):
        def __call__(self, message: "only_for_the_checker.ReceivedMessage") -> None: ...  # noqa: F821

    class Instance:
        async def __call__(self, message: ReceivedMessage) -> None: ...

    def unsaid(message): ...

    def in_text(message: "ReceivedMessage") -> None: ...

    def many(messages: Sequence[ReceivedMessage]) -> None: ...

    def bare(messages: list) -> None: ...  # type: ignore[type-arg]

    assert takes_one_message(Imported.__call__.__get__(Instance()))
    assert all(map(takes_one_message, [Instance(), in_text]))
    assert not any(map(takes_one_message, [unsaid, many, bare, [].extend, lambda messages: None]))
    with pytest.raises(TypeError, match="a ReceivedMessage or a list"):
        takes_one_message(lambda_of_text)


def lambda_of_text(message: str) -> None: ...


def test_a_consumer_with_batches_refuses_a_listener_of_one_message() -> None:
    consumer = PushConsumer("g", nameservers="127.0.0.1:9876", batch_size=2)

    async def one(message: ReceivedMessage) -> None: ...

    with pytest.raises(ConfigurationError, match="it takes one message, and batch_size is 2"):
        consumer.listener(one)
    with pytest.raises(ConfigurationError, match="a ReceivedMessage or a list"):
        consumer.listener(lambda_of_text)  # pyright: ignore[reportArgumentType, reportCallIssue]
