"""Syncs in the loop itself, where the disk is so quick that a switch to another thread and back costs more than the sync.

While the loop syncs it does nothing else. So a disk that gets slow sends the syncs to the thread: a disk that hangs holds the loop once.
"""

from collections.abc import Callable
from typing import Generic

from broker_store.log.commit_log.sync_thread import Reached, SyncThread
from broker_store.log.errors import NoDescriptorLeft

QUICK_SECONDS = 0.001
"""A mean sync that takes longer is left to the thread."""
SLOW_SECONDS = 10.0
"""For so long after a disk was too slow the thread makes all syncs."""
_SMOOTHING = 8


class QuickSync(Generic[Reached]):
    """Requests of a loop that can wait for a sync: nothing else is to be done before its answer."""

    def __init__(
        self,
        thread: SyncThread[Reached],
        sync_if_free: Callable[[], Reached | None],
        on_synced: Callable[[Reached], None],
        steady: Callable[[], float],
        *,
        is_on: bool,
    ) -> None:
        """`sync_if_free` syncs, or returns None if another thread does. Without `is_on` the thread makes all syncs."""
        self._thread, self._sync_if_free, self._on_synced, self._steady = (
            thread,
            sync_if_free,
            on_synced,
            steady,
        )
        self._mean_seconds = 0.0
        self._thread_until = 0.0 if is_on else float("inf")

    def request(self) -> None:
        """Sync everything written so far, now or by the thread: `on_synced` follows, or the thread's answer. Raises LogStopped."""
        began = self._steady()
        reached = self._sync(began)
        if reached is None:
            self._thread.request()
        else:
            self._note(self._steady(), began)
            self._on_synced(reached)

    def _sync(self, now: float) -> Reached | None:
        if now < self._thread_until:
            return None
        try:
            return self._sync_if_free()
        except NoDescriptorLeft:
            return None  # the thread tries again

    def _note(self, now: float, began: float) -> None:
        self._mean_seconds += (now - began - self._mean_seconds) / _SMOOTHING
        if self._mean_seconds > QUICK_SECONDS:
            self._mean_seconds, self._thread_until = 0.0, now + SLOW_SECONDS
