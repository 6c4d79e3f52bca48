"""Batches given by the user: validated as a whole, split into requests. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from gantry_wire.messages.batch import BatchItem
from gantry_wire.messages.properties import GANTRY_KEY
from gantrymq.errors import ConnectionFailed, GantryError, InvalidMessage, TimedOut
from gantrymq.message import Message, MessageQueue, SendResult, check_flag, check_message
from gantrymq.producer.batching.splitting import item_size, split
from gantrymq.producer.sending.preparing import NOT_IN_BATCHES, Preparation

Outcome: TypeAlias = SendResult | GantryError
"""The outcome of one message of a batch: stored, not stored, or unknown (`sent` of the error)."""


class NotSent(GantryError):
    """The message was not sent: an earlier one of its batch failed."""

    retryable = True


class BatchIncomplete(GantryError):
    """Not all messages of a batch are known to be stored. `results` has the outcome of each, in the given order.

    `producer.resume(error)` sends those again that are not known to be stored. The cause is the first error.
    """

    def __init__(
        self,
        messages: Sequence[Message],
        results: Sequence[Outcome],
        queue: MessageQueue | None = None,
        keys: Sequence[str | None] | None = None,
    ) -> None:
        """`queue` is set if all go to one; `keys` are the keys for sending each again, over HTTP."""
        self.messages: Sequence[Message] = messages
        self.results: Sequence[Outcome] = results
        self.queue: MessageQueue | None = queue
        self.keys: Sequence[str | None] = keys if keys is not None else [None] * len(messages)
        first = next(each for each in results if isinstance(each, GantryError))
        super().__init__(f"{self._counts()}; `resume` sends the others again: {first}")
        self.code: int | None = first.code
        self.retryable: bool = all(not isinstance(each, GantryError) or each.retryable for each in results)

    @property
    def stored(self) -> list[int]:
        """Positions of the stored messages in the batch."""
        return [n for n, each in enumerate(self.results) if isinstance(each, SendResult)]

    @property
    def unknown(self) -> list[int]:
        """Positions of the messages that may be stored: no answer came."""
        return [n for n, each in enumerate(self.results) if is_unknown(each)]

    @property
    def not_stored(self) -> list[int]:
        """Positions of the messages that are not stored."""
        return [
            n for n, each in enumerate(self.results) if isinstance(each, GantryError) and not is_unknown(each)
        ]

    def _counts(self) -> str:
        words = f"{len(self.stored)} of {len(self.messages)} messages were stored"
        unknown = len(self.unknown)
        return f"{words}, the outcome of {unknown} is unknown" if unknown else words


def is_unknown(outcome: Outcome) -> bool:
    """Whether a message may be stored without an answer."""
    return isinstance(outcome, ConnectionFailed | TimedOut) and outcome.sent


def all_stored(
    messages: Sequence[Message], outcomes: Sequence[Outcome], queue: MessageQueue | None
) -> list[SendResult]:
    """Return the results of a batch. Raises BatchIncomplete, or the one error that all its messages share."""
    results = [each for each in outcomes if isinstance(each, SendResult)]
    if len(results) == len(messages):
        return results
    first = next(each for each in outcomes if isinstance(each, GantryError))
    if all(each is first for each in outcomes):
        raise first
    raise BatchIncomplete(messages, outcomes, queue) from first


def is_keyed(message: Message) -> bool:
    """Whether a message has an idempotency key: Gantry stores it once."""
    return message.properties is not None and GANTRY_KEY in message.properties


def batch_items(
    messages: Sequence[Message], preparation: Preparation, bytes_max: int, born_ms: int
) -> Iterator[tuple[list[Message], list[BatchItem]]]:
    """Yield messages and their items, as many together as fit a request. Raises InvalidMessage before yielding anything."""
    if not isinstance(messages, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance] - what users pass
        raise InvalidMessage("messages", f"must be a list of gantrymq.Message, not {type(messages).__name__}")
    if not messages:
        raise InvalidMessage("messages", "a batch has at least one")
    for message in messages:
        check_message(message)
    preparation.topic(messages[0].topic)
    made: list[tuple[tuple[Message, BatchItem], int]] = []
    for number, message in enumerate(messages):
        _check_item(number, message, messages[0])
        item = BatchItem(message.flag, message.body, preparation.properties(message, born_ms).encode())
        size = item_size(item.body, item.properties)
        if size > bytes_max:
            raise InvalidMessage("body", f"number {number} takes {size} bytes, a request {bytes_max}")
        made.append(((message, item), size))
    return _parts(made, bytes_max)


def _check_item(number: int, message: Message, first: Message) -> None:
    if message.topic != first.topic:
        raise InvalidMessage(
            "messages", f"number {number} is for topic {message.topic}, the first for {first.topic}"
        )
    if message.is_timed:
        raise InvalidMessage(
            "messages", f"number {number} is delayed: brokers accept no delayed ones in a batch"
        )
    if message.properties and not NOT_IN_BATCHES.isdisjoint(message.properties):
        names = ", ".join(sorted(NOT_IN_BATCHES.intersection(message.properties)))
        raise InvalidMessage(
            "properties", f"number {number} has {names}: brokers accept no such message in a batch"
        )
    if message.wait_stored != first.wait_stored:
        raise InvalidMessage("messages", f"number {number} differs from the first in wait_stored")
    if type(message.body) is not bytes:  # it was bytes when the message was created
        raise InvalidMessage("body", f"bytes, not {type(message.body).__name__}, in number {number}")
    check_flag(message.flag)
    if not message.body:
        raise InvalidMessage("body", f"0 bytes in number {number}; a message has at least 1")


def _parts(
    made: list[tuple[tuple[Message, BatchItem], int]], bytes_max: int
) -> Iterator[tuple[list[Message], list[BatchItem]]]:
    for part in split(made, bytes_max):
        yield [message for message, _ in part], [item for _, item in part]
