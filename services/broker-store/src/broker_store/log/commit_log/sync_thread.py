"""The thread that calls fdatasync on the log. A replica also syncs where it cuts or repairs its log, and as a follower in its loop (`quick_sync.py`).

Each call covers every request made before it; the loop then gets what it returned: the position reached.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from broker_store.log.commit_log.prezero import MakeThread
from broker_store.log.errors import LogStopped, NoDescriptorLeft

RETRY_SECONDS = 0.05
"""Pause between retries while no file descriptor is free to sync the log directory; a request ends it early."""

InLoop = Callable[..., object]
"""Runs a function with arguments in the event loop (`call_soon_threadsafe`)."""
Failed = Callable[[LogStopped], None]
Reached = TypeVar("Reached")
"""What a sync returns."""


class SyncThread(Generic[Reached]):
    """Runs `sync` once for all requests made while the last one ran."""

    def __init__(self, sync: Callable[[], Reached], in_loop: InLoop, make_thread: MakeThread) -> None:
        self._sync = sync
        self._in_loop = in_loop
        self._on_synced: Callable[[Reached], None] | None = None
        self._on_failed: Failed | None = None
        self._has_failed = False
        self._thread = make_thread(self._step, "sync")
        self.request: Callable[[], None] = self._thread.wake

    def start(self, on_synced: Callable[[Reached], None], on_failed: Failed) -> None:
        """Start the thread. It answers each sync with one of these calls in the loop."""
        self._on_synced, self._on_failed = on_synced, on_failed
        self._thread.start()

    def stop(self) -> None:
        """Stop after the running sync. Blocks until then."""
        self._thread.stop()

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
