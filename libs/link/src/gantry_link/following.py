"""Follows one system queue: held pulls, one after the other, each asked for before the last one's records are worked on.

At the queue's end a pause may be made first, so that a busy queue is not asked once for every message.

Knows offsets and whole pull answers, not what the records mean. Ends only when cancelled, or by what `take` raises.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gantry_link.errors import BrokerRefused, LinkError
from gantry_link.store_client import Pulled, StoreClient
from gantry_wire.codes import ResponseCode
from gantry_wire.headers import PullHeader
from gantry_wire.limits import PULL_MESSAGES_MAX

HOLD_SECONDS = 15.0
BACKOFF_SECONDS_MIN = 0.05
BACKOFF_SECONDS_MAX = 1.0
FLAG_SUSPEND, FLAG_SUBSCRIPTION = 2, 4

Take = Callable[[Pulled], Awaitable[None] | None]
"""Takes one answer with its records; what it returns is awaited before the answer after the next is asked for."""


@dataclass(slots=True)
class FollowFigures:
    """How far a follower is; plain numbers, read by metrics."""

    next_offset: int = 0
    max_offset: int = -1
    """As the store said last; -1 before it said anything."""
    pulls: int = 0
    failures: int = 0
    moved: int = 0
    """Times the store said that the offset lies outside the queue."""

    @property
    def has_caught_up(self) -> bool:
        """Whether everything the store has told of was read."""
        return 0 <= self.max_offset <= self.next_offset


class Follower:
    """Reads one queue from an offset on, for ever."""

    def __init__(
        self,
        store: StoreClient,
        topic: str,
        queue_id: int,
        group: str,
        take: Take,
        *,
        rng: random.Random,
        failed: Callable[[str], None] | None = None,
        pause_seconds: Callable[[], float] | None = None,
    ) -> None:
        """`failed` is told in words of pulls that did not work; they are repeated with a growing pause.

        `pause_seconds` says, after records from the queue's end were taken, how long the next pull may wait: what comes
        meanwhile is read later, and together.
        """
        self.figures = FollowFigures()
        self._store, self._topic, self._queue_id, self._group = store, topic, queue_id, group
        self._take = take
        self._rng = rng
        self._failed = failed
        self._pause_seconds = pause_seconds
        self._hold_ms = int(HOLD_SECONDS * 1000)
        self.piece: Callable[[int], tuple[int, int]] = _all
        """Says for an offset where to go on in fact, and how many messages to ask for there: what is known needs not be read."""

    async def run(self, offset: int) -> None:
        """Follow from `offset`. Offsets the queue no longer has are passed over, to where the store says."""
        figures = self.figures
        figures.next_offset = self.piece(offset)[0]
        backoff_seconds = BACKOFF_SECONDS_MIN
        asked = self._ask(offset)
        try:
            while True:
                try:
                    pulled = await asked
                except (BrokerRefused, LinkError) as error:
                    figures.failures += 1
                    if self._failed is not None:
                        self._failed(str(error))
                    await asyncio.sleep(backoff_seconds * self._rng.uniform(0.5, 1.0))
                    backoff_seconds = min(backoff_seconds * 2, BACKOFF_SECONDS_MAX)
                    asked = self._ask(figures.next_offset)
                    continue
                backoff_seconds = BACKOFF_SECONDS_MIN
                figures.pulls += 1
                if self._pause_seconds is None or pulled.next_offset < pulled.max_offset:
                    asked = self._ask(pulled.next_offset)
                    await self._work_on(pulled)
                else:
                    await self._work_on(pulled)
                    if pulled.records and (pause := self._pause_seconds()) > 0:
                        await asyncio.sleep(pause)
                    asked = self._ask(pulled.next_offset)
        finally:
            asked.cancel()

    async def _work_on(self, pulled: Pulled) -> None:
        figures = self.figures
        if pulled.code == ResponseCode.PULL_OFFSET_MOVED:
            figures.moved += 1
        waiting = self._take(pulled)
        if waiting is not None:
            await waiting
        figures.next_offset, figures.max_offset = self.piece(pulled.next_offset)[0], pulled.max_offset

    def _ask(self, offset: int) -> asyncio.Task[Pulled]:
        offset, count = self.piece(offset)
        header = PullHeader(
            consumer_group=self._group,
            topic=self._topic,
            queue_id=self._queue_id,
            queue_offset=offset,
            max_msg_nums=count,
            sys_flag=FLAG_SUSPEND | FLAG_SUBSCRIPTION,
            suspend_timeout_millis=self._hold_ms,
            subscription="*",
            wide=True,
            browse=True,
        )
        return asyncio.get_running_loop().create_task(self._store.pull(header), name=f"pull {self._topic}")


def _all(offset: int) -> tuple[int, int]:
    """Read from here on."""
    return offset, PULL_MESSAGES_MAX
