"""Many messages given at once: checked together, cut into requests. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gantry.errors import GantryError, InvalidMessage
from gantry.message import Message, SendResult, check_message
from gantry.producer.preparing import Preparation
from gantry.producer.splitting import item_size, split
from gantry.unique_ids import now_ms
from gantry_wire.batch import BatchItem


class BatchIncomplete(GantryError):
    """The first messages of a batch were stored, and have `results`; the others were not, for the error that is its cause."""

    def __init__(self, results: list[SendResult], count: int, cause: GantryError) -> None:
        super().__init__(f"{len(results)} of {count} messages were stored, send the others again: {cause}")
        self.results = results
        self.code: int | None = cause.code
        self.retryable: bool = cause.retryable


def batch_items(
    messages: Sequence[Message], preparation: Preparation, bytes_max: int
) -> Iterator[tuple[list[Message], list[BatchItem]]]:
    """Yield messages and their items, as many together as fit a request. InvalidMessage before anything is yielded."""
    if not isinstance(messages, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance] - what users pass
        raise InvalidMessage("messages", f"a list of gantry.Message, not {type(messages).__name__}")
    if not messages:
        raise InvalidMessage("messages", "a batch has at least one")
    for message in messages:
        check_message(message)
    born_ms = now_ms()
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
            "messages", f"number {number} is delayed: brokers take no delayed ones in a batch"
        )
    if message.wait_stored != first.wait_stored:
        raise InvalidMessage("messages", f"number {number} differs from the first in wait_stored")
    if type(message.body) is not bytes:  # it was one when the message was made
        raise InvalidMessage("body", f"bytes, not {type(message.body).__name__}, in number {number}")
    if not message.body:
        raise InvalidMessage("body", f"0 bytes in number {number}; a message has at least 1")


def _parts(
    made: list[tuple[tuple[Message, BatchItem], int]], bytes_max: int
) -> Iterator[tuple[list[Message], list[BatchItem]]]:
    for part in split(made, bytes_max):
        yield [message for message, _ in part], [item for _, item in part]
