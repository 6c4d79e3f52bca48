"""Answers to sends that come together are told in portions, one a turn of the event loop.

Who waits sends again: the messages of one portion leave, and keep the broker busy, while the next portion is told. Told all at once,
client and broker would work by turns, each waiting for the other. Owns the order of telling only.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from gantry.message import SendStatus
from gantry_link.turn import Turn
from gantry_wire.headers import SendReplyHeader

if TYPE_CHECKING:
    from gantry.producer.sending.send import Send

_OK = SendStatus.SEND_OK
PORTION_MIN = 16
"""Fewer would cost more in writes, and under SYNC_FLUSH in flushes, than they win."""
PORTIONS = 4
"""So many are made of what is on its way."""


class Answers:
    """The answers of one producer that were not told yet."""

    __slots__ = ("_go_on_bound", "_loop", "_open_sends", "_room", "_turn", "_waiting")

    def __init__(self, open_sends: Callable[[], int]) -> None:
        """`open_sends` returns how many are on their way."""
        self._loop = asyncio.get_running_loop()
        self._turn = Turn.current()
        self._open_sends = open_sends
        self._waiting: deque[tuple[Send, SendReplyHeader]] = deque()
        self._room = PORTION_MIN
        self._go_on_bound = self._go_on

    def add(self, send: Send, reply: SendReplyHeader) -> None:
        """Tell a send that its messages were stored: now, or in a later turn where this one has told enough."""
        if self._room <= 0:
            self._waiting.append((send, reply))
            return
        send.stored(_OK, reply)
        self._room -= send.size
        if self._room <= 0:
            self._loop.call_soon(self._go_on_bound)  # behind those who were told

    def _go_on(self) -> None:
        self._turn.end()  # what was sent by those who were told leaves before the others are told
        self._room = max(PORTION_MIN, self._open_sends() // PORTIONS)
        while self._waiting and self._room > 0:
            send, reply = self._waiting.popleft()
            send.stored(_OK, reply)
            self._room -= send.size
        if self._room <= 0:
            self._loop.call_soon(self._go_on_bound)
