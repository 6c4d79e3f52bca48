"""Calls whose heads are known: what a head means, and the answer without reading it again. Knows ASGI's words, and no socket.

Only the hot POST calls are kept; each is answered by the same code as without its head being known.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from gantry_wire.bounded_cache import BoundedCache
from gateway.connection.known_heads import HEADS_MAX
from gateway.connection.quick_answer import Begin
from gateway.connection.request_io import Cycle
from gateway.http.call import Call
from gateway.http.clocks import ReplyStamps

_OF_CONNECTION = frozenset({"server", "client", "gateway.is_lost", "gateway.when_lost"})


class Known(NamedTuple):
    """What a head means: the scope of its requests but for the connection's share, and the quick way to begin them, if any."""

    scope: dict[str, Any]
    begin: Begin | None


class ShortWay:
    """Begins requests with known heads."""

    def __init__(
        self,
        answer: Callable[[Call], Awaitable[None]],
        stamps: ReplyStamps,
        learn: Callable[[dict[str, Any]], Begin | None],
        is_hot: Callable[[str], bool],
    ) -> None:
        self._answer, self._stamps, self._learn, self._is_hot = answer, stamps, learn, is_hot
        self.heads: BoundedCache[bytes, Known] = BoundedCache(HEADS_MAX)
        """What heads mean, by their bytes."""

    def learn(self, head: bytes, scope: dict[str, Any]) -> None:
        """Keep what a head means that was read in full."""
        if self._is_hot(scope["path"]):
            kept = {name: value for name, value in scope.items() if name not in _OF_CONNECTION}
            self.heads.keep(head, Known(kept, self._learn(kept)))

    def begin(self, known: Known, cycle: Cycle, body: bytes, tasks: set[asyncio.Task[None]]) -> None:
        """Begin a request; one that has to wait for anything but a store's answer becomes one of the tasks."""
        if known.begin is not None and known.begin(cycle, body):
            return
        call = Call(cycle.scope(), cycle.receive, cycle.send, self._stamps)
        task = asyncio.ensure_future(_run(self._answer(call)))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


async def _run(answering: Awaitable[None]) -> None:
    await answering
