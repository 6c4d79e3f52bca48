"""Reports answers to sends that arrive together in portions, one per turn of the event loop.

Callers send again on each answer: the messages of one portion leave, and keep the broker busy, while the next portion is reported. Reported all at once,
client and broker would work alternately, each waiting for the other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from gantry_link.connections.turn import Turn
from gantry_wire.headers.messages import SendReplyHeader
from gantrymq.message import SendStatus

if TYPE_CHECKING:
    from gantrymq.producer.sending.send import Send

_OK = SendStatus.SEND_OK
PORTION_MIN = 16
"""A smaller portion would cost more in writes, and under SYNC_FLUSH in flushes, than it gains."""
PORTIONS = 4
"""Outstanding sends are divided into this many portions."""


class Answers:
    """The unreported answers of a producer."""

    __slots__ = ("_continue_bound", "_loop", "_open_sends", "_room", "_turn", "_waiting")

    def __init__(self, open_sends: Callable[[], int]) -> None:
        """`open_sends` returns the number of outstanding sends."""
        self._loop = asyncio.get_running_loop()
        self._turn = Turn.current()
        self._open_sends = open_sends
        self._waiting: deque[tuple[Send, SendReplyHeader]] = deque()
        self._room = PORTION_MIN
        self._continue_bound = self._continue

    def add(self, send: Send, reply: SendReplyHeader) -> None:
        """Report that the messages of a send were stored: now, or in a later turn if this one has reported enough."""
        if self._room <= 0:
            self._waiting.append((send, reply))
            return
        send.stored(_OK, reply)
        self._room -= send.size
        if self._room <= 0:
            self._loop.call_soon(self._continue_bound)  # after the callbacks of reported sends

    def _continue(self) -> None:
        self._turn.end()  # what those callbacks sent leaves before the next portion
        self._room = max(PORTION_MIN, self._open_sends() // PORTIONS)
        while self._waiting and self._room > 0:
            send, reply = self._waiting.popleft()
            send.stored(_OK, reply)
            self._room -= send.size
        if self._room <= 0:
            self._loop.call_soon(self._continue_bound)
