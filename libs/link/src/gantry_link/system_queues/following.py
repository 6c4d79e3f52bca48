"""Follows one system queue with consecutive held pulls. Sends the next pull before it processes the last one's records.

At the queue's end it may pause first, so that a busy queue does not cause one pull per message.

Knows offsets and whole pull answers, not the records' meaning. Ends only when cancelled or when `take` raises.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gantry_link.clients.store import Pulled, StoreClient
from gantry_link.errors import BrokerRefused, LinkError
from gantry_link.system_queues.claims import QueueKey
from gantry_wire.codes import ResponseCode
from gantry_wire.headers.messages import PullHeader
from gantry_wire.limits import PULL_MESSAGES_MAX

HOLD_SECONDS = 15.0
BACKOFF_SECONDS_MIN = 0.05
BACKOFF_SECONDS_MAX = 1.0
FLAG_SUSPEND, FLAG_SUBSCRIPTION = 2, 4

Take = Callable[[Pulled], Awaitable[None] | None]
"""Takes one answer with its records. The follower awaits the returned awaitable before it sends the pull after the next."""


@dataclass(slots=True)
class FollowMetrics:
    """Progress of a follower. Plain numbers, read by metrics."""

    next_offset: int = 0
    max_offset: int = -1
    """The store's last max offset; -1 before its first answer."""
    pulls: int = 0
    failures: int = 0
    moved: int = 0
    """Number of answers that the offset is outside the queue."""

    @property
    def has_caught_up(self) -> bool:
        """Whether it has read all records up to the store's last max offset."""
        return 0 <= self.max_offset <= self.next_offset


class Follower:
    """Reads one queue from an offset until cancelled."""

    def __init__(
        self,
        store: StoreClient,
        queue: QueueKey,
        group: str,
        take: Take,
        *,
        rng: random.Random,
        failed: Callable[[str], None] | None = None,
        pause_seconds: Callable[[], float] | None = None,
        next_range: Callable[[int], tuple[int, int]] | None = None,
    ) -> None:
        """Call `failed` with the reason of each failed pull, which is then repeated after a growing pause.

        `pause_seconds` returns how long to wait before the next pull at the queue's end, so that the records that arrive
        meanwhile are read together. `next_range` returns for an offset where to pull and how many messages, so that known records
        can be skipped; without it, every record is read.
        """
        self.metrics = FollowMetrics()
        self._store, self._group = store, group
        self._topic, self._queue_id = queue
        self._take = take
        self._rng = rng
        self._failed = failed
        self._pause_seconds = pause_seconds
        self._hold_ms = int(HOLD_SECONDS * 1000)
        self._next_range = next_range or _all

    async def run(self, offset: int) -> None:
        """Follow from `offset`. Skips offsets that the queue no longer has, to where the store says."""
        metrics = self.metrics
        metrics.next_offset = self._next_range(offset)[0]
        backoff_seconds = BACKOFF_SECONDS_MIN
        asked = self._ask(offset)
        try:
            while True:
                try:
                    pulled = await asked
                except (BrokerRefused, LinkError) as error:
                    metrics.failures += 1
                    if self._failed is not None:
                        self._failed(str(error))
                    await asyncio.sleep(backoff_seconds * self._rng.uniform(0.5, 1.0))
                    backoff_seconds = min(backoff_seconds * 2, BACKOFF_SECONDS_MAX)
                    asked = self._ask(metrics.next_offset)
                    continue
                backoff_seconds = BACKOFF_SECONDS_MIN
                metrics.pulls += 1
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
        metrics = self.metrics
        if pulled.code == ResponseCode.PULL_OFFSET_MOVED:
            metrics.moved += 1
        waiting = self._take(pulled)
        if waiting is not None:
            await waiting
        metrics.next_offset, metrics.max_offset = self._next_range(pulled.next_offset)[0], pulled.max_offset

    def _ask(self, offset: int) -> asyncio.Task[Pulled]:
        offset, count = self._next_range(offset)
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
    """Read from this offset on."""
    return offset, PULL_MESSAGES_MAX
