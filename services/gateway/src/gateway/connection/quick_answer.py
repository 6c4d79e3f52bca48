"""Answers written without a task: for calls that wait for nothing but a store's answer. Knows no message.

A call that turns out to need more goes on the plain way, from `later` on.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from gantry_chassis.memory import LargeThings
from gateway.connection.request_io import Cycle
from gateway.http.access import Access
from gateway.http.call import Call, Reply, json_head
from gateway.http.clocks import ReplyStamps
from gateway.http.metrics import Figures

Begin = Callable[[Cycle, bytes], bool]
"""Begins a call; False where nothing was done and it is left to the plain way."""
Finish = Callable[[Call, Coroutine[Any, Any, Reply]], Coroutine[Any, Any, None]]
"""Answers a call with what a coroutine returns or raises."""
GoOn = Callable[[Call], Coroutine[Any, Any, Reply]]


class QuickAnswers:
    """Writes answers to requests with known heads, and counts them."""

    def __init__(
        self,
        access: Access,
        figures: Figures,
        stamps: ReplyStamps,
        finish: Finish,
        gzip_bytes_min: int,
        large: LargeThings,
    ) -> None:
        self.access = access
        self.clock = figures.clock
        self._figures, self._stamps, self._finish = figures, stamps, finish
        self._gzip_bytes_min, self._large = gzip_bytes_min, large
        self._tasks: set[asyncio.Task[None]] = set()

    def write_json(self, cycle: Cycle, body: bytes, name: str, started: float, *, may_pack: bool) -> bool:
        """Answer 200 with a body in JSON, counted as `name`; False, and nothing was done, for one that is to be packed."""
        varies = bool(self._gzip_bytes_min) and len(body) >= self._gzip_bytes_min
        if varies and may_pack:
            return False
        head = json_head(self._stamps, len(body), stays=cycle.keep_alive, varies=varies)
        cycle.write(head + body)
        self._large.had(len(body))
        self._figures.count(name, 200, self.clock() - started)
        return True

    def later(self, cycle: Cycle, name: str, go_on: GoOn) -> None:
        """Answer a call the plain way, from here on; `go_on` gets it with its body read."""
        call = Call(cycle.scope(), cycle.receive, cycle.send, self._stamps)
        call.scope["route_name"] = name
        task = asyncio.ensure_future(self._finish(call, _read(call, go_on)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _read(call: Call, go_on: GoOn) -> Reply:
    await call.body()
    return await go_on(call)
