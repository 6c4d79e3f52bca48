"""One piece of work at a time, and the owners of what waits take turns: whoever asks for much waits for itself.

Within one owner, first come, first served.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class FairTurns:
    """A lock whose waiters are served owner by owner."""

    def __init__(self) -> None:
        self._is_taken = False
        self._waiting: dict[int, deque[asyncio.Future[None]]] = {}
        """Owner → its waiters. The next turn is that of the first owner; who had a turn goes to the end."""

    @asynccontextmanager
    async def of(self, owner: int) -> AsyncGenerator[None]:
        """Hold the turn inside the block. A cancelled wait gives its place up."""
        await self._take(owner)
        try:
            yield
        finally:
            self._pass_on()

    async def _take(self, owner: int) -> None:
        if not self._is_taken:
            self._is_taken = True
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it got the turn in the moment it was cancelled
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        """Give the turn to the next that still waits, or set it free."""
        while self._waiting:
            owner, turns = next(iter(self._waiting.items()))
            del self._waiting[owner]
            turn = turns.popleft()
            if turns:
                self._waiting[owner] = turns
            if not turn.done():
                turn.set_result(None)
                return
        self._is_taken = False
