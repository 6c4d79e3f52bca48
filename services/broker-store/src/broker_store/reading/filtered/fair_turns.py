"""One piece of work at a time, with turns between owners: an owner with much work delays only itself.

Within one owner, first come, first served.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class FairTurns:
    """A lock that serves its waiters owner by owner."""

    def __init__(self) -> None:
        self._is_taken = False
        self._waiting: dict[int, deque[asyncio.Future[None]]] = {}
        """Owner → its waiters. The first owner has the next turn, and moves to the end after it."""

    @asynccontextmanager
    async def of(self, owner: int) -> AsyncGenerator[None]:
        """Hold the turn inside the block. A cancelled wait gives up its place."""
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
            if turn.done() and not turn.cancelled():  # it got the turn just as it was cancelled
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        """Give the turn to the next waiter, or release it."""
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
