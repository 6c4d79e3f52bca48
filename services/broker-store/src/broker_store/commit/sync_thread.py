"""The only thread that calls fdatasync on the log. A replica also syncs when it cuts or repairs its log (`replication/replica_log.py`).

Each call covers every request made before it; the loop then gets what it returned: the position reached.
"""

import asyncio
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from broker_store.log.errors import LogStopped, NoDescriptorLeft
from gantry_chassis.machine.environment import MakeThread

RETRY_SECONDS = 0.05
"""Pause between retries while no file descriptor is free to sync the log directory; a request ends it early."""

InLoop = Callable[..., object]
"""Runs a function with arguments in the event loop (`call_soon_threadsafe`)."""

Synced = Callable[[int], None]
"""Takes the position below which everything is durable."""
Failed = Callable[[LogStopped], None]
Reached = TypeVar("Reached")
"""What a sync returns."""


class Flusher(Protocol):
    """Makes written bytes durable, in its own time (`SyncThread`)."""

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


class SyncThread(Generic[Reached]):
    """Runs `sync` once for all requests made while the last one ran."""

    def __init__(self, sync: Callable[[], Reached], in_loop: InLoop, make_thread: MakeThread) -> None:
        self._sync = sync
        self._in_loop = in_loop
        self._on_synced: Callable[[Reached], None] | None = None
        self._on_failed: Failed | None = None
        self._has_failed = False
        self.holds_all, self.accepts_sends = False, True
        self.may_answer_alone: Callable[[], bool] | None = None
        self._thread = make_thread(self._step, "sync")
        self.request: Callable[[], None] = self._thread.wake

    def start(self, on_synced: Callable[[Reached], None], on_failed: Failed) -> None:
        """Start the thread. It answers each sync with one of these calls in the loop."""
        self._on_synced, self._on_failed = on_synced, on_failed
        self._thread.start()

    async def stop(self) -> None:
        """Stop after the running sync, and return then."""
        await asyncio.to_thread(self._thread.stop)

    def _step(self) -> float | None:
        assert self._on_synced is not None
        assert self._on_failed is not None
        if self._has_failed:
            return None  # a failed sync is never retried into a success
        try:
            reached = self._sync()
        except NoDescriptorLeft:
            return RETRY_SECONDS
        except LogStopped as stopped:
            self._has_failed = True
            self._in_loop(self._on_failed, stopped)
        else:
            self._in_loop(self._on_synced, reached)
        return None
