"""What makes the writes of the group commit durable: a store's own disk, or its group (`process/membership.py`)."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from broker_store.log.commit_log.prezero import MakeThread
from broker_store.log.commit_log.sync_thread import Failed, InLoop, SyncThread

Synced = Callable[[int], None]
"""Takes the position below which everything is durable."""


class Flusher(Protocol):
    """Makes written bytes durable, in its own time."""

    @property
    def request(self) -> Callable[[], None]:
        """Requests a sync of everything written so far. Never blocks."""
        ...

    def start(self, on_synced: Synced, on_failed: Failed) -> None:
        """Answer requests from now on, those made before included, with one of these calls in the loop."""
        ...

    @property
    def holds_all(self) -> bool:
        """Whether nothing may be answered or shown before it is synced, whatever its topic asks for: a leader's followers need it first."""
        ...

    @property
    def accepts_sends(self) -> bool:
        """Whether sends may be appended now. False while too few followers are in sync."""
        ...

    @property
    def may_answer_alone(self) -> Callable[[], bool] | None:
        """With asynchronous replication: whether a plain send may be answered now though no follower has it. None: never."""
        ...

    async def stop(self) -> None:
        """Stop after the running sync, and return then."""
        ...


class OwnDisk:
    """The flusher of a store without replicas: the log's `SyncThread`."""

    holds_all, accepts_sends = False, True
    may_answer_alone: Callable[[], bool] | None = None

    def __init__(self, sync: Callable[[], int], in_loop: InLoop, make_thread: MakeThread) -> None:
        self._thread = SyncThread(sync, in_loop, make_thread)
        self.request: Callable[[], None] = self._thread.request
        self.start = self._thread.start

    async def stop(self) -> None:
        """See Flusher."""
        await asyncio.to_thread(self._thread.stop)
