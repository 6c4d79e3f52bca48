"""Collects concurrent sends to the same topic, or queue, into batches: one request for many. Does not send them itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple, cast

from gantry_link.connections.turn import Turn
from gantry_wire.limits import BATCH_ITEM_BYTES_MIN
from gantry_wire.messages.batch import BatchItem
from gantry_wire.messages.properties import GANTRY_KEY
from gantrymq.message import Message, MessageQueue, SendResult

MESSAGES_MAX = 1000
"""Of a collected batch: the broker reads as many at once."""


_new_item = cast("Callable[[type[BatchItem], tuple[int, bytes, bytes]], BatchItem]", tuple.__new__)
"""Takes a sixth of the time of the class's own call (130 of 810 ns)."""


class Gathered(NamedTuple):
    """Messages that are sent together, with the waiter of each."""

    topic: str
    queue: MessageQueue | None
    messages: list[Message]
    items: list[BatchItem]
    waiting: list[asyncio.Future[SendResult]]
    deadline: float
    is_keyed: bool
    """Whether some have idempotency keys."""


PileKey = tuple[str, MessageQueue | None, bool]
"""Topic, the chosen queue if any, whether the answer waits for the disk."""


class _Pile:
    __slots__ = ("deadline", "is_keyed", "items", "messages", "seconds", "size", "timer", "waiting")

    def __init__(self, deadline: float, seconds: float) -> None:
        self.messages: list[Message] = []
        self.items: list[BatchItem] = []
        self.waiting: list[asyncio.Future[SendResult]] = []
        self.size = 0
        self.deadline = deadline
        self.seconds = seconds
        self.is_keyed = False
        self.timer: asyncio.TimerHandle | None = None


class Accumulator:
    """A pile for each topic or queue; it is sent when it is large enough, or after `linger` seconds."""

    def __init__(
        self,
        linger: float,
        bytes_max: int,
        check_topic: Callable[[str], object],
        leave: Callable[[Gathered], None],
    ) -> None:
        """`check_topic` raises for an invalid topic; `leave` is called with every pile, in the event loop."""
        self._check_topic = check_topic
        self._linger = linger
        self._bytes_max = bytes_max
        self._leave = leave
        self._piles: dict[PileKey, _Pile] = {}
        self._loop = asyncio.get_running_loop()
        self._turn = Turn.current()
        self._leave_all_bound = self.leave_all

    def add(
        self,
        message: Message,
        properties: str,
        queue: MessageQueue | None,
        future: asyncio.Future[SendResult],
        seconds: float,
    ) -> None:
        """Add a message with its timeout to its pile; InvalidMessage for its topic.

        Messages on another pile of a chosen queue are sent first: the messages of a queue keep their order.
        """
        key = (message.topic, queue, message.wait_stored)
        if queue is not None:
            self._leave_now((message.topic, queue, not message.wait_stored))
        body, text = message.body, properties.encode()
        size = BATCH_ITEM_BYTES_MIN + len(body) + len(text)
        pile = self._piles.get(key)
        if pile is not None and pile.size + size > self._bytes_max:
            self._leave_now(key)
            pile = None
        if pile is None:
            pile = self._begin(key, seconds)
        pile.messages.append(message)
        pile.items.append(_new_item(BatchItem, (message.flag, body, text)))
        pile.waiting.append(future)
        if message.properties and GANTRY_KEY in message.properties:
            pile.is_keyed = True
        size = pile.size = pile.size + size
        if seconds < pile.seconds:
            pile.deadline, pile.seconds = min(pile.deadline, self._loop.time() + seconds), seconds
        if size >= self._bytes_max or len(pile.waiting) >= MESSAGES_MAX:
            self._leave_now(key)

    def leave_chosen(self, topic: str) -> None:
        """Send now all messages of a topic with a chosen queue: one sent individually must not overtake them."""
        for key in [key for key in self._piles if key[0] == topic and key[1] is not None]:
            self._leave_now(key)

    def leave_all(self) -> None:
        """Send everything now."""
        for key in list(self._piles):
            self._leave_now(key)

    def _begin(self, key: PileKey, seconds: float) -> _Pile:
        self._check_topic(key[0])
        pile = self._piles[key] = _Pile(self._loop.time() + seconds, seconds)
        if self._linger:
            pile.timer = self._loop.call_later(self._linger, self._leave_now, key)
        else:
            self._turn.at_end(self._leave_all_bound)
        return pile

    def _leave_now(self, key: PileKey) -> None:
        pile = self._piles.pop(key, None)
        if pile is None:
            return
        if pile.timer is not None:
            pile.timer.cancel()
        topic, queue, _ = key
        self._leave(
            Gathered(topic, queue, pile.messages, pile.items, pile.waiting, pile.deadline, pile.is_keyed)
        )
