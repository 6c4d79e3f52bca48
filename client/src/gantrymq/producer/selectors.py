"""Queue selectors of RocketMQ, for `producer.send(message, selector=…, argument=…)`. Pure except for randomness."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeAlias

from gantry_wire.messages.properties import java_hash
from gantrymq.errors import InvalidMessage
from gantrymq.message import Message, MessageQueue

Selector: TypeAlias = "Callable[[Sequence[MessageQueue], Message, Any], MessageQueue]"
"""Gets the writable queues of the topic (never none), the message and the argument; returns one of the queues."""
ROOM_SEPARATOR = "@"


def by_hash(queues: Sequence[MessageQueue], _message: Message, argument: object) -> MessageQueue:
    """Choose by Java's hash of the argument's text: equal arguments give equal queues, as long as their number stays.

    A number is hashed as its decimal text.
    """
    if not isinstance(argument, (str, int)):
        raise InvalidMessage("argument", f"by_hash needs text or a whole number, not {argument!r}")
    return queues[index_of(java_hash(str(argument)), len(queues))]


def by_random(queues: Sequence[MessageQueue], _message: Message, _argument: object) -> MessageQueue:
    """Choose a random queue."""
    return random.choice(queues)  # noqa: S311 - spreads messages, guards nothing


def by_machine_room(rooms: Collection[str]) -> Selector:
    """Return a selector of a random queue among brokers in these rooms, named `room@broker`."""
    wanted = frozenset(rooms)

    def select(queues: Sequence[MessageQueue], message: Message, argument: object) -> MessageQueue:
        near = [queue for queue in queues if queue.broker.partition(ROOM_SEPARATOR)[0] in wanted]
        if not near:
            raise InvalidMessage(
                "selector", f"topic {message.topic} has no queue on a broker of {', '.join(sorted(wanted))}"
            )
        return by_random(near, message, argument)

    return select


def index_of(hashed: int, count: int) -> int:
    """Return the index of Java's `Math.abs(hash % count)`; Java's remainder has the sign of the hash."""
    return abs(hashed) % count
